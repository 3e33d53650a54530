package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Buckets combine many slices of all ranks while the program still computes some of them, as the gradients of a model
// in a backward pass. Slices that become ready one after the other make a bucket, and the AllReduce of a bucket starts
// as soon as all of its slices are ready.
//
//	buckets, err := collective.NewBuckets(ctx, c, gradients, collective.Avg, 0)
//	for range steps {
//		for i := range slices.Backward(gradients) {
//			// compute gradients[i]
//			err = buckets.Ready(i)
//		}
//		err = buckets.Wait(ctx)
//		// all ranks have the same averages in gradients
//	}
//
// In each pass, Ready is called once for each slice, in any order, which may be another one on each rank; then Wait.
// Buckets start in one order on all ranks: one that is ready early waits for those before it. In the first pass slices
// are expected from the last to the first, and later in the order of the first pass of rank 0. So the bits of a sum of
// floating-point numbers may differ between the first pass and later ones, and do not between ranks.
//
// Between the first Ready of a pass and its Wait, the program makes no other call on the communicator: buckets start at
// other times on each rank, and match no other call (ErrMismatch). A program that needs such calls makes the Buckets on
// a communicator of its own, from Dup.
//
// Many goroutines may call Ready. Buckets hold no resources and need no Close.
type Buckets[T Element] struct {
	c     *Comm
	of    [][]T
	op    Op
	bytes int

	mu      sync.Mutex
	at      []int       // by slice: its bucket
	buckets []bucket[T] // in the order in which they start
	ready   []bool      // by slice: in this pass
	order   []int32     // the slices that are ready, in this order
	started []Request   // the AllReduces of the buckets that have started in this pass
	last    Request     // that of the bucket that has started last
	agreed  bool        // whether there has been a pass
}

// bucket is slices with one AllReduce.
type bucket[T Element] struct {
	args   *comm.Args
	slices [][]T // those that lie one behind the other in memory are one
	count  int   // of the slices of Buckets
	left   int   // those of them that are not ready in this pass
}

// bucketBytes is the default size of a bucket. PyTorch's 25 MiB leave more for the end of a pass.
const bucketBytes = 2 << 20

// NewBuckets prepares an AllReduce in place of all of the slices, in buckets of a number of bytes; 0 is the default of
// 2 MiB. A bucket ends with the slice with which it reaches this size. All ranks of c call NewBuckets together, with as
// many slices of the same type and lengths, op and bytes. A difference is an ErrDisagree on all ranks, which names it
// and the ranks, and the communicator stays usable. Slices do not overlap. The outer slice may be changed when
// NewBuckets returns.
func NewBuckets[T Element](ctx context.Context, c *Comm, gradients [][]T, op Op, bytes int) (*Buckets[T], error) {
	const name = "NewBuckets"
	a := reduceArgs[T](comm.NewArgs(calls.ID{Kind: calls.NewBuckets}), c, plan.AllReduce, -1, nil, nil, op)
	if a.Err != nil {
		return nil, a.Err
	}
	if bytes < 0 {
		return nil, c.inner().ArgumentError(name, "buckets of %d bytes (hint: 0 is the default, 2 MiB)", bytes)
	}
	if i, j := overlapping(gradients); i >= 0 {
		return nil, c.inner().ArgumentError(name, "slices %d and %d overlap", i, j)
	}
	b := &Buckets[T]{c: c, of: slices.Clone(gradients), op: op, bytes: cmp.Or(bytes, bucketBytes)}
	terms := []term{{"the number of slices", fmt.Sprint(len(b.of))}, {"the operation", a.Op.String()},
		{"the bytes of a bucket", fmt.Sprint(b.bytes)}}
	for i, s := range b.of {
		terms = append(terms, term{fmt.Sprintf("slice %d", i), fmt.Sprintf("%d %v", len(s), a.DType)})
	}
	if _, err := agreeOn(ctx, c, calls.NewBuckets, 0, terms); err != nil {
		return nil, err
	}
	b.at, b.ready, b.order = make([]int, len(b.of)), make([]bool, len(b.of)), make([]int32, len(b.of))
	for i := range b.order {
		b.order[i] = int32(len(b.of) - 1 - i)
	}
	return b, b.fill()
}

// overlapping returns two slices that share memory, -1 where there are none.
func overlapping[T Element](all [][]T) (int, int) {
	order := make([]int, 0, len(all))
	for i, s := range all {
		if len(s) > 0 {
			order = append(order, i)
		}
	}
	span := func(i int) kernel.Span { return kernel.SpanOf(kernel.BytesOf(all[i])) }
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(span(i).Addr, span(j).Addr) })
	for k := 1; k < len(order); k++ {
		if i, j := order[k-1], order[k]; span(i).Overlap(span(j)) != kernel.Apart {
			return min(i, j), max(i, j)
		}
	}
	return -1, -1
}

// fill makes buckets of the slices in the order of b, and begins a pass.
func (b *Buckets[T]) fill() error {
	b.buckets = nil
	size, first := 0, 0
	for k, i := range b.order {
		b.at[i] = len(b.buckets)
		size += len(kernel.BytesOf(b.of[i]))
		if size >= b.bytes || k == len(b.order)-1 {
			if err := b.add(slices.Sorted(slices.Values(b.order[first : k+1]))); err != nil {
				return err
			}
			size, first = 0, k+1
		}
	}
	b.begin()
	return nil
}

// add adds a bucket of slices.
func (b *Buckets[T]) add(indices []int32) error {
	n := bucket[T]{count: len(indices)}
	for _, i := range indices {
		s, last := b.of[i], len(n.slices)-1
		switch {
		case len(s) == 0:
		case last >= 0 && follows(n.slices[last], s):
			n.slices[last] = n.slices[last][:len(n.slices[last])+len(s)]
		default:
			n.slices = append(n.slices, s)
		}
	}
	if n.args = new(comm.Args); len(n.slices) == 1 { // no pieces: other ranks read it in place if it is of Alloc
		reduceArgs(n.args, b.c, plan.AllReduce, -1, n.slices[0], n.slices[0], b.op)
	} else {
		allReducePieces(n.args, b.c, n.slices, n.slices, b.op)
	}
	n.args.Prepare(b.c.inner(), calls.FirstOfBuckets)
	b.buckets = append(b.buckets, n)
	return n.args.Err
}

// follows reports whether s, which is not empty, lies behind all of before in the same array.
func follows[T any](before, s []T) bool {
	n := len(before)
	return cap(before) >= n+len(s) && &before[:n+1][n] == &s[0]
}

// begin begins a pass.
func (b *Buckets[T]) begin() {
	for i := range b.buckets {
		b.buckets[i].left = b.buckets[i].count
	}
	clear(b.ready)
	b.order, b.started = b.order[:0], b.started[:0]
}

// Ready reports that slice i has its value of this pass. It starts all buckets that are ready, and moves those under
// way, but does not wait for other ranks: while some 256 calls are under way, a bucket starts with a later Ready, or in
// Wait. From then on until Wait the slice must not be touched.
//
// Calling it twice for a slice in a pass is an ErrArgument. After an ErrBusy the slice is ready; its bucket starts with
// a later Ready, or in Wait.
func (b *Buckets[T]) Ready(i int) error {
	const name = "Buckets.Ready"
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case i < 0 || i >= len(b.of):
		return b.c.inner().ArgumentError(name, "slice %d of %d", i, len(b.of))
	case b.ready[i]:
		return b.refused(name, "slice %d is ready already in this pass (hint: Wait ends a pass)", i)
	}
	b.ready[i], b.order = true, append(b.order, int32(i))
	b.buckets[b.at[i]].left--
	for {
		room, err := comm.Room(b.c.inner(), name)
		switch {
		case !b.startable() && errors.Is(err, ErrBusy):
			return nil // the call of the other goroutine moves those under way
		case err != nil || !room || !b.startable():
			return err
		}
		if err := b.startNext(); err != nil {
			return err
		}
	}
}

// refused returns the error of a call that the pass does not allow: where the communicator has failed or is closed,
// that is the cause.
func (b *Buckets[T]) refused(name, format string, v ...any) error {
	err := b.c.inner().Claim(name)
	switch {
	case err == nil:
		b.c.inner().End()
	case !errors.Is(err, ErrBusy):
		return err
	}
	return b.c.inner().ArgumentError(name, format, v...)
}

// startable reports whether the next bucket is ready.
func (b *Buckets[T]) startable() bool {
	n := len(b.started)
	return n < len(b.buckets) && b.buckets[n].left == 0
}

// startNext starts the next bucket.
func (b *Buckets[T]) startNext() (err error) {
	n, r := &b.buckets[len(b.started)], Request{}
	if len(n.slices) == 1 {
		r, err = b.c.begun(n.args)
	} else {
		r, err = startPieces(b.c, n.args, n.slices, n.slices)
	}
	if err == nil {
		b.started, b.last = append(b.started, r), r
	}
	return err
}

// Wait returns when all slices have the combination of all ranks, and so ends the pass. If slices are not ready, it
// returns an ErrArgument that names them, and the pass continues. In the first pass it also sends the order of rank 0
// to all ranks.
func (b *Buckets[T]) Wait(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.order) < len(b.of) {
		var missing []int
		for i, ready := range b.ready {
			if !ready {
				missing = append(missing, i)
			}
		}
		return b.refused("Buckets.Wait", "%d of %d slices are not ready: %v (hint: all become ready once in "+
			"each pass, also with zeros)", len(missing), len(b.of), missing[:min(len(missing), 20)])
	}
	for b.startable() {
		if n := len(b.started) - comm.InFlight/2; n >= 0 { // there is room behind it, and ctx may end here
			if err := b.started[n].Wait(ctx); err != nil {
				return err
			}
		}
		if err := b.startNext(); err != nil {
			return err
		}
	}
	if err := b.last.Wait(ctx); err != nil {
		return err
	}
	if b.agreed || len(b.of) == 0 {
		b.begin()
		return nil
	}
	if err := Broadcast(ctx, b.c, b.order, b.order, 0); err != nil {
		return err
	}
	b.agreed = true
	return b.fill()
}
