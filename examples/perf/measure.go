package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/treerun/treerun/collective"
)

// meter measures operations on one communicator. All ranks make the same calls
// on theirs.
type meter[T number] struct {
	c          *collective.Comm
	o          *options
	send, recv []T
	times      []float64 // seconds of each iteration on this rank
	slowest    []float64 // the same on the slowest rank
	origin     time.Time // reading the clock against it costs one clock read
}

// newMeter allocates and touches all memory that measuring needs. most is the
// largest count in elements.
func newMeter[T number](c *collective.Comm, o *options, most int) *meter[T] {
	m := &meter[T]{
		c: c, o: o,
		send: make([]T, most), recv: make([]T, most),
		times: make([]float64, o.iters), slowest: make([]float64, o.iters),
		origin: time.Now(),
	}
	fill(m.send, c.Rank())
	fill(m.recv, c.Rank())
	return m
}

// now is the time since an arbitrary origin, in seconds.
func (m *meter[T]) now() float64 { return time.Since(m.origin).Seconds() }

// measure times op on count elements and checks its result. The row is the
// same on all ranks.
func (m *meter[T]) measure(ctx context.Context, op string, count int) (row, error) {
	if op == "barrier" {
		count = 0
	}
	fill(m.send[:count], m.c.Rank())
	fill(m.recv[:count], m.c.Rank())

	// One iteration tells how long they take, then the warm-up does so better.
	one, err := m.backToBack(ctx, op, count, 1)
	if err != nil {
		return row{}, err
	}
	iters := fit(m.o.iters, 3, m.o.budget, one)
	if warmup := fit(m.o.warmup, 1, m.o.budget/2, one) - 1; warmup > 0 {
		if one, err = m.backToBack(ctx, op, count, warmup); err != nil {
			return row{}, err
		}
		iters = fit(m.o.iters, 3, m.o.budget, one)
	}

	r := row{op: op, typ: m.o.typ, np: m.c.Size(), count: count, bytes: count * width[T](), iters: iters, checked: m.o.check && op != "barrier"}
	if m.o.stream {
		seconds, err := m.backToBack(ctx, op, count, iters)
		if err != nil {
			return row{}, err
		}
		r.median, r.least = seconds, seconds
	} else {
		if r.median, r.least, err = m.oneByOne(ctx, op, count, iters); err != nil {
			return row{}, err
		}
	}
	if r.checked {
		r.wrong, err = m.wrong(ctx, op, count)
	}
	return r, err
}

// backToBack returns the seconds of one of n iterations in a row, on the
// slowest rank.
func (m *meter[T]) backToBack(ctx context.Context, op string, count, n int) (float64, error) {
	if err := collective.Barrier(ctx, m.c); err != nil {
		return 0, err
	}
	begin := m.now()
	for range n {
		if err := m.call(ctx, op, count); err != nil {
			return 0, err
		}
	}
	seconds := []float64{(m.now() - begin) / float64(n)}
	err := collective.AllReduce(ctx, m.c, seconds, seconds, collective.Max)
	return seconds[0], err
}

// oneByOne times n iterations, each from this rank's own exit of a barrier. An
// iteration counts as long as on its slowest rank; the median and the least of
// all are returned, in seconds.
func (m *meter[T]) oneByOne(ctx context.Context, op string, count, n int) (median, least float64, err error) {
	times, slowest := m.times[:n], m.slowest[:n]
	for i := range times {
		if err := collective.Barrier(ctx, m.c); err != nil {
			return 0, 0, err
		}
		begin := m.now()
		if err := m.call(ctx, op, count); err != nil {
			return 0, 0, err
		}
		times[i] = m.now() - begin
	}
	if err := collective.AllReduce(ctx, m.c, times, slowest, collective.Max); err != nil {
		return 0, 0, err
	}
	return medianOf(slowest), slices.Min(slowest), nil
}

// call makes one call on the first count elements. Broadcast is always in
// place and the root is rank 0, as in the MPI benchmarks.
func (m *meter[T]) call(ctx context.Context, op string, count int) error {
	send, recv := m.send[:count], m.recv[:count]
	if m.o.inPlace {
		send = recv
	}
	switch op {
	case "allreduce":
		return collective.AllReduce(ctx, m.c, send, recv, collective.Sum)
	case "broadcast":
		return collective.Broadcast(ctx, m.c, recv, recv, 0)
	case "reduce":
		return collective.Reduce(ctx, m.c, send, recv, collective.Sum, 0)
	case "barrier":
		return collective.Barrier(ctx, m.c)
	}
	return fmt.Errorf("no such operation: %s", op)
}

// wrong makes one more call on fresh data and returns the number of elements,
// over all ranks, that are not what they should be.
func (m *meter[T]) wrong(ctx context.Context, op string, count int) (int64, error) {
	recv := m.recv[:count]
	for i := range recv {
		recv[i] = 99 // no input or sum has to be it to be caught: see fill
	}
	if op == "broadcast" && m.c.Rank() == 0 || op != "broadcast" && m.o.inPlace {
		fill(recv, m.c.Rank())
	}
	if err := m.call(ctx, op, count); err != nil {
		return 0, err
	}
	var wrong int64
	switch {
	case op == "broadcast":
		wrong = differences(recv, func(i int) int { return input(0, i) })
	case op == "allreduce" || m.c.Rank() == 0:
		wrong = differences(recv, func(i int) int { return total(m.c.Size(), i) })
	}
	sum := []int64{wrong}
	err := collective.AllReduce(ctx, m.c, sum, sum, collective.Sum)
	return sum[0], err
}

// fit returns how many of want iterations of the given seconds fit into the
// budget: at least least, but never more than want.
func fit(want, least int, budget, seconds float64) int {
	if budget <= 0 || seconds <= 0 || float64(want)*seconds <= budget {
		return want
	}
	return min(want, max(least, int(budget/seconds)))
}

// medianOf sorts v and returns its median.
func medianOf(v []float64) float64 {
	slices.Sort(v)
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
