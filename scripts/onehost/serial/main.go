// Serial measures a batch of AllReduces of one size one after the other, each
// with buffers of its own: what many calls in flight are compared with.
//
//	treerun -np 2 serial CALLS BYTES
//
// Rank 0 prints one row as treerun bench --json does: the median time of the
// batch, on the slowest rank and from its own exit of a barrier. Only
// scripts/one-host.sh runs it; nothing imports it.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

const (
	warmup  = 5
	batches = 50
	gap     = 16 // elements between the buffers: a cache line
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "serial:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	calls, count, err := parse(args)
	if err != nil {
		return err
	}
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

	send, recv := make([]float32, calls*(count+gap)), make([]float32, calls*(count+gap))
	for i := range send {
		send[i] = float32(i%13 + w.Rank())
	}
	times := make([]float64, 0, batches)
	for i := range warmup + batches {
		us, err := batch(ctx, c, send, recv, calls, count)
		if err != nil {
			return err
		}
		if i >= warmup {
			times = append(times, us)
		}
	}
	// Of every iteration the slowest rank counts.
	slowest := make([]float64, batches)
	if err := collective.AllReduce(ctx, c, times, slowest, collective.Max); err != nil {
		return err
	}
	if w.Rank() == 0 {
		slices.Sort(slowest)
		fmt.Printf("{\"collective\":\"serial\",\"np\":%d,\"bytes\":%d,\"time_us\":%.3f,\"wrong\":%d}\n",
			w.Size(), 4*count, (slowest[(batches-1)/2]+slowest[batches/2])/2, wrong(recv, calls, count, w.Size()))
	}
	return nil
}

func parse(args []string) (calls, count int, err error) {
	if len(args) == 2 {
		calls, _ = strconv.Atoi(args[0])
		bytes, _ := strconv.Atoi(args[1])
		count = bytes / 4
	}
	if calls < 1 || calls > 10000 || count < 1 || count > 1<<24 {
		return 0, 0, fmt.Errorf("usage: serial CALLS BYTES, got %q", args)
	}
	return calls, count, nil
}

// batch returns the microseconds that this rank needed.
func batch(ctx context.Context, c *collective.Comm, send, recv []float32, calls, count int) (float64, error) {
	if err := collective.Barrier(ctx, c); err != nil {
		return 0, err
	}
	begin := time.Now()
	for i := range calls {
		at := i * (count + gap)
		if err := collective.AllReduce(ctx, c, send[at:at+count], recv[at:at+count], collective.Sum); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / 1e3, nil
}

// wrong counts the elements that are not the sum over all ranks.
func wrong(recv []float32, calls, count, size int) int {
	n := 0
	for i := range calls {
		at := i * (count + gap)
		for k, v := range recv[at : at+count] {
			if v != float32((at+k)%13*size+size*(size-1)/2) {
				n++
			}
		}
	}
	return n
}
