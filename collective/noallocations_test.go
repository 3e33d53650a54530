package collective

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// paths returns every way to make a call of count elements per part, as a
// function that makes it once. All ranks of c make the same.
func paths(ctx context.Context, c *Comm, count int) (names []string, makes []func() error, err error) {
	add := func(name string, f func() error) { names, makes = append(names, name), append(makes, f) }
	x, y, whole := make([]float32, count), make([]float32, count), make([]float32, count*c.in.Size)
	pieces := [][]float32{x[:count/3], x[count/3 : count/2], nil, x[count/2:]}
	next, before := (c.in.Rank+1)%c.in.Size, (c.in.Rank+c.in.Size-1)%c.in.Size
	add("AllReduce", func() error { return AllReduce(ctx, c, x, x, Avg) })
	add("Reduce", func() error { return Reduce(ctx, c, x, y, Sum, 2) })
	add("Broadcast", func() error { return Broadcast(ctx, c, x, x, 1) })
	add("AllGather", func() error { return AllGather(ctx, c, x, whole) })
	add("ReduceScatter", func() error { return ReduceScatter(ctx, c, whole, x, Max) })
	add("AllToAll", func() error { return AllToAll(ctx, c, whole, whole) })
	add("Gather", func() error { return Gather(ctx, c, x, whole, 0) })
	add("Scatter", func() error { return Scatter(ctx, c, whole, x, 0) })
	add("Scan", func() error { return Scan(ctx, c, x, y, Sum) })
	add("ExScan", func() error { return ExScan(ctx, c, x, x, Max) })
	add("Barrier", func() error { return Barrier(ctx, c) })
	add("AllReducePreMul", func() error { return AllReducePreMul(ctx, c, x, x, 0.5) })
	add("AllReduceCoalesced", func() error { return AllReduceCoalesced(ctx, c, pieces, pieces, Sum) })
	add("BroadcastCoalesced", func() error { return BroadcastCoalesced(ctx, c, pieces, pieces, 3) })
	add("SendRecv", func() error { return exchanged(ctx, c, x, next, y, before, 1) })
	add("Start, Wait", func() error {
		var last Request
		for range 5 {
			r, err := StartAllReduce(c, x, y, Sum)
			if err != nil {
				return err
			}
			last = r
		}
		return last.Wait(ctx)
	})
	add("Start, Test", func() error {
		r, err := StartBroadcast(c, x, y, 3)
		for done := false; !done && err == nil; runtime.Gosched() {
			done, err = r.Test()
		}
		return err
	})
	add("StartAllReduceCoalesced", func() error {
		r, err := StartAllReduceCoalesced(c, pieces, pieces, Sum)
		if err != nil {
			return err
		}
		return r.Wait(ctx)
	})
	add("StartSend, StartRecv", func() error {
		in, err := StartRecv(c, y, before, 3)
		if err != nil {
			return err
		}
		out, err := StartSend(c, x, next, 3)
		if err != nil {
			return err
		}
		if err := out.Wait(ctx); err != nil {
			return err
		}
		return in.Wait(ctx)
	})
	variedPaths(ctx, c, x, whole, add)
	err0 := bucketPath(ctx, c, x, y, add)
	p, err := AllReduceInit(c, x, y, Min)
	add("Persistent", func() error { return p.Run(ctx) })
	scan, err2 := ScanInit(c, x, x, Min)
	add("Persistent Scan", func() error { return scan.Run(ctx) })
	f := func(into, from []float32) {
		for i := range into {
			into[i] += from[i]
		}
	}
	add("AllReduceFunc", func() error { return AllReduceFunc(ctx, c, x, y, f) })
	reduce, err3 := AllReduceFuncInit(c, x, y, f)
	add("Persistent AllReduceFunc", func() error { return reduce.Run(ctx) })
	scatter, err4 := ReduceScatterFuncInit(c, whole, x, f)
	add("Persistent ReduceScatterFunc", func() error { return scatter.Run(ctx) })
	exclusive, err5 := ExScanFuncInit(c, x, x, f)
	add("Persistent ExScanFunc", func() error { return exclusive.Run(ctx) })
	return names, makes, errors.Join(err0, err, err2, err3, err4, err5)
}

// bucketPath adds a pass of Buckets to paths.
func bucketPath(ctx context.Context, c *Comm, x, y []float32, add func(name string, f func() error)) error {
	n := len(x)
	b, err := NewBuckets(ctx, c, [][]float32{x[:n/3], y, nil, x[n/2:]}, Avg, n)
	add("Buckets", func() error {
		return errors.Join(b.Ready(2), b.Ready(3), b.Ready(0), b.Ready(1), b.Wait(ctx))
	})
	return err
}

// variedPaths adds the V forms to paths.
func variedPaths(ctx context.Context, c *Comm, x, whole []float32, add func(name string, f func() error)) {
	counts := slices.Repeat([]int{len(x)}, c.in.Size)
	add("AllGatherV", func() error { return AllGatherV(ctx, c, x, whole, counts) })
	add("GatherV", func() error { return GatherV(ctx, c, x, whole, counts, 0) })
	add("ScatterV", func() error { return ScatterV(ctx, c, whole, x, counts, 1) })
	other := slices.Clone(whole)
	add("AllToAllV", func() error { return AllToAllV(ctx, c, whole, counts, other, counts) })
}

// TestCallsDoNotAllocate: after a few calls of each kind, calls allocate
// nothing, whatever the path, for small messages and large ones.
func TestCallsDoNotAllocate(t *testing.T) {
	const size = 4
	testutil.OneProcessor(t)
	for _, tc := range []struct{ count, calls int }{{2, testutil.Count(30, 100)}, {50_000, 10}} {
		for _, s := range localAlgorithms[:firstAlgorithms] {
			spared := s != "multi:one" && (testutil.Race || tc.count > 2 && !testutil.Thorough())
			if spared || testutil.Race && tc.count > 2 {
				continue
			}
			t.Run(fmt.Sprintf("%v/count=%d", s, tc.count), func(t *testing.T) {
				mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
					return countAllocs(t, c, tc.count, tc.calls)
				}, WithGraph(topo.UniformGraph(size)), WithAlgorithm(s))
			})
		}
	}
}

func countAllocs(t *testing.T, c *Comm, count, calls int) error {
	names, makes, err := paths(t.Context(), c, count)
	if err != nil {
		return err
	}
	const batches = 30 // at most: on a busy machine the runtime starts threads, and allocates for them
	for i, call := range makes {
		for range comm.InFlight { // every place for a call is used once
			if err := call(); err != nil {
				return err
			}
		}
		least := uint64(math.MaxUint64)
		again := 1
		for batch := 0; batch < batches && again != 0; batch++ {
			var before, after runtime.MemStats
			if c.in.Rank == 0 {
				runtime.ReadMemStats(&before)
			}
			for range calls {
				if err := call(); err != nil {
					return err
				}
			}
			if err := Barrier(t.Context(), c); err != nil {
				return err
			}
			if c.in.Rank == 0 {
				runtime.ReadMemStats(&after)
				least = min(least, after.Mallocs-before.Mallocs)
			}
			if again = 0; c.in.Rank == 0 && least > uint64(calls)/2 {
				again = 1
			}
			if again, err = AllReduceValue(t.Context(), c, again, Max); err != nil {
				return err
			}
		}
		// The runtime allocates now and then, as after a collection of garbage;
		// a call that allocates does so calls times in every batch.
		if c.in.Rank == 0 && least > uint64(calls)/2 {
			t.Errorf("%s: %d allocations in %d calls on each of %d ranks", names[i], least, calls, c.in.Size)
		}
	}
	return nil
}
