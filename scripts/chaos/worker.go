//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
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
	origin   int
	long     time.Duration // of the steps
	end      time.Time     // of these, as this rank sees it
	epochs   int           // after which it ends, 0: none
	failed   bool          // a sum that follows is the first one after a failure
	step     int
	state    []int64 // follows from the step
	origins  []int64
	in, out  []int64
	resident []byte // memory that the kernel has to free at the end
}

// note prints a line for the driver: what this rank does, the time in nanoseconds, its origin, and a number.
func (k *worker) note(word string, n int, more ...any) {
	fmt.Println(append([]any{word, time.Now().UnixNano(), k.origin, n}, more...)...)
}

// work runs a rank.
func work(ctx context.Context) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP)
	go fail(signals)
	k := &worker{in: make([]int64, count), out: make([]int64, count), state: make([]int64, count)}
	long, err := time.ParseDuration(os.Getenv("CHAOS_TIME"))
	if err != nil {
		return fmt.Errorf("CHAOS_TIME: %w", err)
	}
	k.long = long
	k.epochs, _ = strconv.Atoi(os.Getenv("CHAOS_EPOCHS"))
	if n, _ := strconv.Atoi(os.Getenv("CHAOS_RESIDENT")); n > 0 {
		k.resident = make([]byte, n<<20)
		for i := 0; i < len(k.resident); i += os.Getpagesize() {
			k.resident[i] = 1
		}
	}
	if k.origin, err = strconv.Atoi(os.Getenv("TREERUN_RANK")); err != nil {
		return fmt.Errorf("TREERUN_RANK: %w", err)
	}
	epoch, _ := strconv.Atoi(os.Getenv("TREERUN_EPOCH"))
	k.failed = epoch > 0
	k.note("process", os.Getpid(), os.Getenv("TREERUN_JOB_ID"))
	descriptors, goroutines := held()
	descriptors -= 2 // the job file, and the socket to the launcher
	goroutines++     // the one whose thread shows that the process lives (docs/inside/failures.md)
	for w, err := range rank.Worlds(ctx) {
		if err != nil {
			return err
		}
		err = k.train(w.Context(), w)
		if err == nil {
			k.note("closes", w.Epoch())
			err = w.Close()
			return k.released(err, descriptors, goroutines)
		}
		k.note("error", w.Epoch())
		if !rank.Again(err) {
			return err
		}
		k.failed = true
	}
	return nil
}

// fail brings about the fault that the driver has chosen.
func fail(signals chan os.Signal) {
	switch <-signals {
	case syscall.SIGUSR1:
		os.Exit(3)
	case syscall.SIGUSR2:
		panic("a fault")
	}
	for all := [][]byte{nil}; ; all = append(all, bytes.Repeat([]byte{1}, 4<<20)) { // until the memory is used up
		runtime.KeepAlive(all)
	}
}

// held returns the numbers of open descriptors and of goroutines.
func held() (descriptors, goroutines int) {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names), runtime.NumGoroutine()
}

// released checks that this process has no more descriptors and goroutines than before its first World.
func (k *worker) released(err error, descriptors, goroutines int) error {
	d, g := held()
	for begin := time.Now(); (d > descriptors || g > goroutines) && time.Since(begin) < 2*time.Second; d, g = held() {
		time.Sleep(10 * time.Millisecond)
	}
	if err == nil && (d > descriptors || g > goroutines) {
		stacks := make([]byte, 64<<10)
		err = fmt.Errorf("LEFT: %d descriptors, before %d; %d goroutines, before %d\n%s", d, descriptors, g, goroutines,
			stacks[:runtime.Stack(stacks, true)])
	}
	return err
}

// train takes the remaining steps in one epoch.
func (k *worker) train(ctx context.Context, w *rank.World) error {
	k.note("new", runtime.NumGoroutine())
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
	k.note("restore", w.Epoch())
	if k.step, err = collective.Restore(ctx, c, k.step, k.state); err != nil {
		return err
	}
	for i, got := range k.state {
		if got != int64(k.step*i) {
			return fmt.Errorf("WRONG: epoch %d: element %d of the state of step %d is %d", w.Epoch(), i, k.step, got)
		}
	}
	for first := true; ; first = false {
		select {
		case <-w.Changed():
			return rank.ErrAgain
		default:
		}
		end, err := k.check(ctx, c, w)
		if err != nil {
			return err
		}
		if first && (k.failed || w.Epoch() == 0) {
			k.note("sum", w.Size(), w.Epoch())
			k.failed = false
		}
		if k.end.IsZero() {
			k.end = time.Now().Add(k.long)
		}
		if end {
			return c.Close()
		}
		k.step++
		for i := range k.state {
			k.state[i] = int64(k.step * i)
		}
	}
}

// check makes two calls and compares all of their results. The buffers hold other values before. It returns true when
// the time of any rank is over.
func (k *worker) check(ctx context.Context, c *collective.Comm, w *rank.World) (end bool, err error) {
	sum := int64(0)
	for _, o := range k.origins {
		sum += o
	}
	for i := range k.in {
		k.in[i], k.out[i] = int64(k.step*i+w.Origin()), -1
	}
	k.in[0] = 0
	if !k.end.IsZero() && time.Now().After(k.end) || k.epochs > 0 && w.Epoch() >= k.epochs {
		k.in[0] = 1
	}
	if err := collective.AllReduce(ctx, c, k.in, k.out, collective.Sum); err != nil {
		return false, err
	}
	end = k.out[0] > 0
	for i, got := range k.out {
		if want := int64(len(k.origins)*k.step*i) + sum; got != want && i > 0 {
			return end, fmt.Errorf("WRONG: epoch %d, step %d: element %d of the sum is %d, want %d", w.Epoch(), k.step, i,
				got, want)
		}
	}
	root := k.step % len(k.origins)
	for i := range k.out {
		k.out[i] = -1
		if root == w.Rank() {
			k.out[i] = int64(k.step + i)
		}
	}
	if err := collective.Broadcast(ctx, c, k.out, k.out, root); err != nil {
		return false, err
	}
	for i, got := range k.out {
		if got != int64(k.step+i) {
			return end, fmt.Errorf("WRONG: epoch %d, step %d: element %d of the Broadcast is %d", w.Epoch(), k.step, i, got)
		}
	}
	return end, nil
}
