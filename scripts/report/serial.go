package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// serial measures, as a rank of a job, a batch of AllReduces of one size one after the
// other, each with buffers of its own: what many calls in flight are compared with.
//
//	treerun -np 2 report serial CALLS BYTES
//
// Rank 0 prints one row as treerun bench --json does: the median time of the batch, on
// the slowest rank and from its own exit of a barrier.
func serial(ctx context.Context, args []string) (err error) {
	const warmup, batches = 5, 50
	const gap = 16 // elements between the buffers: a cache line
	calls, count := 0, 0
	if len(args) == 2 {
		calls, _ = strconv.Atoi(args[0])
		bytes, _ := strconv.Atoi(args[1])
		count = bytes / 4
	}
	if calls < 1 || calls > 10000 || count < 1 || count > 1<<24 {
		return fmt.Errorf("usage: serial CALLS BYTES, got %q", args)
	}
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()

	send, recv := make([]float32, calls*(count+gap)), make([]float32, calls*(count+gap))
	for i := range send {
		send[i] = float32(i%13 + w.Rank())
	}
	times := make([]float64, warmup+batches)
	for i := range times {
		if err := collective.Barrier(ctx, c); err != nil {
			return err
		}
		begin := time.Now()
		for at := 0; at < len(send); at += count + gap {
			if err := collective.AllReduce(ctx, c, send[at:at+count], recv[at:at+count], collective.Sum); err != nil {
				return err
			}
		}
		times[i] = float64(time.Since(begin).Nanoseconds()) / 1e3
	}
	// Of every iteration the slowest rank counts.
	slowest := make([]float64, batches)
	if err := collective.AllReduce(ctx, c, times[warmup:], slowest, collective.Max); err != nil {
		return err
	}
	wrong := 0
	for i, v := range recv {
		if size := w.Size(); i%(count+gap) < count && v != float32(i%13*size+size*(size-1)/2) {
			wrong++
		}
	}
	if w.Rank() == 0 {
		fmt.Printf("{\"collective\":\"serial\",\"np\":%d,\"bytes\":%d,\"time_us\":%.3f,\"wrong\":%d}\n",
			w.Size(), 4*count, median(slowest), wrong)
	}
	return nil
}
