package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/numbers"
)

// times is how long an AllReduce took, over many of them, on the slowest rank.
type times struct {
	Ranks      int     `json:"ranks"`
	Bytes      int64   `json:"bytes"`
	Iterations int     `json:"iterations"`
	MedianUs   float64 `json:"median_us"`
	MinUs      float64 `json:"min_us"`
	Plan       string  `json:"plan"`
}

// timed measures AllReduces of float32, from a barrier on until SyncDevice has said
// that the result is there. All ranks get the same.
func timed(ctx context.Context, c *collective.Comm, s *cuda.Stream, bytes int64, iterations int) (t *times, err error) {
	n := int(max(bytes/4, 1))
	send, err := cuda.Alloc[float32](s.Device(), n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, send.Free()) }()
	recv, err := cuda.Alloc[float32](s.Device(), n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, recv.Free()) }()
	if err := s.Memset(send.Addr(), 0, send.Bytes()); err != nil {
		return nil, err
	}
	for _, x := range []cuda.Slice[float32]{send, recv} {
		m, err := collective.RegisterDevice(ctx, c, x)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, m.Close(ctx)) }()
	}
	const warmup = 3
	mine := make([]float64, 0, iterations)
	for i := range warmup + iterations {
		if err := collective.Barrier(ctx, c); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := collective.AllReduceDevice(ctx, c, s, send, recv, collective.Sum); err != nil {
			return nil, err
		}
		if err := c.SyncDevice(ctx, s); err != nil {
			return nil, err
		}
		if i >= warmup {
			mine = append(mine, float64(time.Since(began).Nanoseconds())/1e3)
		}
	}
	slowest := make([]float64, len(mine))
	if err := collective.AllReduce(ctx, c, mine, slowest, collective.Max); err != nil {
		return nil, err
	}
	choice, err := c.DeviceChoice(allReduceKind, -1, int(bytes))
	if err != nil {
		return nil, err
	}
	return &times{Ranks: c.Size(), Bytes: int64(n) * 4, Iterations: iterations,
		MedianUs: numbers.Median(slowest), MinUs: slices.Min(slowest), Plan: choice.Plan}, nil
}

// onStream returns how long the device takes for work that enqueue puts into a
// stream, the median of rounds, in seconds.
func onStream(ctx context.Context, s *cuda.Stream, rounds int, enqueue func() error) (float64, error) {
	begin, err := s.Device().NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer begin.Close()
	end, err := s.Device().NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer end.Close()
	var seconds []float64
	for i := range rounds + 2 {
		if err := errors.Join(s.Record(begin), enqueue(), s.Record(end), s.Synchronize(ctx)); err != nil {
			return 0, err
		}
		d, err := end.Since(begin)
		if err != nil {
			return 0, err
		}
		if i >= 2 {
			seconds = append(seconds, d.Seconds())
		}
	}
	return numbers.Median(seconds), nil
}
