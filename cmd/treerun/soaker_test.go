//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// soaker is a rank that makes very many small AllReduces, on one communicator or in turns on
// several that exist at once. It prints the amounts of its memory, descriptors and
// goroutines after a tenth of the calls and at the end, with several communicators also when there
// is one:
//
//	soak CALLS [COMMUNICATORS]
func soaker() {
	if err := soakAsRank(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soakAsRank(ctx context.Context) error {
	numbers := []int{0, 1}
	if len(os.Args) < 2 || len(os.Args) > 3 {
		return fmt.Errorf("usage: soak CALLS [COMMUNICATORS]")
	}
	for i, arg := range os.Args[1:] {
		var err error
		if numbers[i], err = strconv.Atoi(arg); err != nil {
			return err
		}
	}
	calls := numbers[0]
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	defer c.Close()
	begin := time.Now()
	all := []*collective.Comm{c}
	for i := 1; i < numbers[1]; i++ {
		if i == 1 {
			if err := printResources(w.Rank(), 0, begin); err != nil {
				return err
			}
		}
		next, err := c.Split(ctx, 0, w.Rank())
		if err != nil {
			return fmt.Errorf("communicator %d: %w", i, err)
		}
		defer next.Close()
		all = append(all, next)
	}
	// no rank closes its links before all have reported
	return errors.Join(soakCalls(ctx, w, all, calls, begin), collective.Barrier(ctx, c))
}

// soakCalls makes the calls, in turns on the communicators.
func soakCalls(ctx context.Context, w *rank.World, all []*collective.Comm, calls int, begin time.Time) error {
	x := make([]int64, 1)
	n := int64(w.Size())
	for i := range calls {
		if i == calls/10 {
			if err := printResources(w.Rank(), i, begin); err != nil {
				return err
			}
		}
		x[0] = int64(i * w.Rank())
		if err := collective.AllReduce(ctx, all[i%len(all)], x, x, collective.Sum); err != nil {
			return err
		}
		if want := int64(i) * n * (n - 1) / 2; x[0] != want {
			return fmt.Errorf("call %d: rank %d got %d, want %d", i, w.Rank(), x[0], want)
		}
	}
	return printResources(w.Rank(), calls, begin)
}

// ownMallocs are the allocations of tellHeld itself.
var ownMallocs uint64

// printResources prints one line with the resources of this rank.
func printResources(rank, calls int, begin time.Time) error {
	var mem, after runtime.MemStats
	runtime.ReadMemStats(&mem)
	defer func() {
		runtime.ReadMemStats(&after)
		ownMallocs += after.Mallocs - mem.Mallocs
	}()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	fds, goroutines, err := minResources()
	if err != nil {
		return err
	}
	field := func(name string) string {
		_, rest, _ := bytes.Cut(status, []byte("\n"+name+":"))
		value := bytes.Fields(rest)
		if len(value) == 0 {
			return "0"
		}
		return string(value[0])
	}
	fmt.Printf("rank=%d calls=%d rss=%s size=%s fds=%d goroutines=%d threads=%s mallocs=%d seconds=%g\n",
		rank, calls, field("VmRSS"), field("VmSize"), fds, goroutines, field("Threads"), mem.Mallocs-ownMallocs,
		time.Since(begin).Seconds())
	return nil
}

// minResources returns the numbers of descriptors and goroutines that stay: the least of some counts, because
// a rank that checks the others has one more of each at times.
func minResources() (fds, goroutines int, err error) {
	fds, goroutines = math.MaxInt, math.MaxInt
	for range 20 {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0, 0, err
		}
		fds, goroutines = min(fds, len(all)), min(goroutines, runtime.NumGoroutine())
		time.Sleep(time.Millisecond)
	}
	return fds, goroutines, nil
}
