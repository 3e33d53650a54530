package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// count is the number of elements of each buffer.
const count = 1500

// worker is a rank.
type worker struct {
	step     int64
	end      time.Time // of the job, as this rank sees it
	failed   bool      // a sum that follows is the first one after a failure
	origins  []int64
	in, out  []int64
	resident []byte // memory that the kernel has to free at the end
}

// work runs a rank. A line of stdout tells the driver what it does: what, the time in nanoseconds, and its origin.
func work(ctx context.Context) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		if <-signals == syscall.SIGUSR1 {
			os.Exit(3)
		}
		panic("a fault")
	}()
	k := &worker{in: make([]int64, count), out: make([]int64, count)}
	long, err := time.ParseDuration(os.Getenv("CHAOS_TIME"))
	if err != nil {
		return fmt.Errorf("CHAOS_TIME: %w", err)
	}
	k.end = time.Now().Add(long)
	if n, _ := strconv.Atoi(os.Getenv("CHAOS_RESIDENT")); n > 0 {
		k.resident = make([]byte, n<<20)
		for i := 0; i < len(k.resident); i += os.Getpagesize() {
			k.resident[i] = 1
		}
	}
	origin, err := strconv.Atoi(os.Getenv("TREERUN_RANK"))
	if err != nil {
		return fmt.Errorf("TREERUN_RANK: %w", err)
	}
	fmt.Println("process", time.Now().UnixNano(), origin, os.Getpid())
	for w, err := range rank.Worlds(ctx) {
		if err != nil {
			return err
		}
		err = k.train(w.Context(), w)
		if err == nil {
			fmt.Println("closes", time.Now().UnixNano(), origin)
			return w.Close()
		}
		if !rank.Again(err) {
			return err
		}
		fmt.Println("error", time.Now().UnixNano(), origin, w.Epoch())
		k.failed = true
	}
	return nil
}

// train takes the remaining steps in one epoch.
func (k *worker) train(ctx context.Context, w *rank.World) error {
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	k.origins = make([]int64, w.Size())
	if err := collective.AllGather(ctx, c, []int64{int64(w.Origin())}, k.origins); err != nil {
		return err
	}
	if !slices.IsSorted(k.origins) {
		return fmt.Errorf("WRONG: epoch %d has origins %v", w.Epoch(), k.origins)
	}
	step := []int64{k.step}
	if err := collective.AllReduce(ctx, c, step, step, collective.Max); err != nil {
		return err
	}
	for k.step = step[0]; ; k.step++ {
		select {
		case <-w.Changed():
			return rank.ErrAgain
		default:
		}
		if end, err := k.check(ctx, c, w); err != nil {
			return err
		} else if end {
			return c.Close()
		}
		if k.failed {
			fmt.Println("sum", time.Now().UnixNano(), w.Origin(), w.Epoch())
			k.failed = false
		}
	}
}

// check makes two calls and compares all of their results. The buffers hold other values before. It returns true when
// the time of any rank is over.
func (k *worker) check(ctx context.Context, c *collective.Comm, w *rank.World) (end bool, err error) {
	ranks, sum := int64(len(k.origins)), int64(0)
	for _, o := range k.origins {
		sum += o
	}
	for i := range k.in {
		k.in[i], k.out[i] = k.step*int64(i)+int64(w.Origin()), -1
	}
	if k.in[0] = 0; time.Now().After(k.end) {
		k.in[0] = 1
	}
	if err := collective.AllReduce(ctx, c, k.in, k.out, collective.Sum); err != nil {
		return false, err
	}
	end = k.out[0] > 0
	for i, got := range k.out {
		if want := ranks*k.step*int64(i) + sum; got != want && i > 0 {
			return end, fmt.Errorf("WRONG: epoch %d, step %d: element %d of the sum is %d, want %d", w.Epoch(), k.step, i,
				got, want)
		}
	}
	root := int(k.step) % len(k.origins)
	for i := range k.out {
		k.out[i] = -1
		if root == w.Rank() {
			k.out[i] = k.step + int64(i)
		}
	}
	if err := collective.Broadcast(ctx, c, k.out, k.out, root); err != nil {
		return false, err
	}
	for i, got := range k.out {
		if got != k.step+int64(i) {
			return end, fmt.Errorf("WRONG: epoch %d, step %d: element %d of the Broadcast is %d", w.Epoch(), k.step, i, got)
		}
	}
	return end, nil
}
