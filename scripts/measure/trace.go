package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// trace times AllReduces, for scripts/trace-cost.sh. Rank 0 prints a line for each size: the bytes, and the time of a
// call in microseconds, in the fastest pass. Others on a busy machine make some passes slower.
func trace(args []string) { check(traceCost(context.Background(), args)) }

func traceCost(ctx context.Context, args []string) error {
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	var opts []collective.Option
	observed := time.Duration(0)
	if len(args) > 0 && args[0] == "observe" {
		args = args[1:]
		opts = append(opts, collective.WithObserver(func(e collective.Event) { observed += e.Took }))
	}
	c, err := collective.New(ctx, w, opts...)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return err
	}
	for _, text := range args[1:] {
		size, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		us, err := measure(ctx, c, make([]float32, size/4), time.Duration(seconds*1e9))
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Println(size, us)
		}
	}
	return w.Close()
}

// tracePasses is the number of measurements of a size.
const tracePasses = 15

// measure returns the time of a call in microseconds.
func measure(ctx context.Context, c *collective.Comm, buf []float32, over time.Duration) (float64, error) {
	calls := 2
	var times []float64
	for n := -2; n < tracePasses; n++ { // two passes before to find the number of calls
		if err := collective.Barrier(ctx, c); err != nil {
			return 0, err
		}
		began := time.Now()
		for range calls {
			if err := collective.AllReduce(ctx, c, buf, buf, collective.Max); err != nil {
				return 0, err
			}
		}
		took := time.Since(began)
		if n >= 0 {
			times = append(times, float64(took)/1e3/float64(calls))
			continue
		}
		calls = max(2, int(float64(calls)*float64(over)/tracePasses/float64(took)))
		var err error
		if calls, err = collective.AllReduceValue(ctx, c, calls, collective.Min); err != nil {
			return 0, err
		}
	}
	return slices.Min(times), nil
}
