package collective

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/kernel"
)

// trial is a call with its memory on one rank, made in whatever form, and the memory contents expected afterwards, byte
// by byte: the result in its place, everything else unchanged.
type trial interface {
	String() string
	run(ctx context.Context) error
	start() (Request, error)
	prepare() (*Persistent, error)
	reset() // the inputs as they were
	check() error
}

// memory is a slice between guards. It does not start at a multiple of 64
// bytes.
type memory[T Element] struct {
	all, body     []T
	before, after []byte // of all
}

const guard = 67 // elements

func newMemory[T Element](n int) *memory[T] {
	m := &memory[T]{all: make([]T, n+2*guard)}
	b := kernel.BytesOf(m.all)
	b[0] = 0xa5
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
	m.body = m.all[guard : guard+n] // its capacity reaches over the guard
	return m
}

// expect takes a copy of m, and one of its expected contents: with want at element at of its body.
func (m *memory[T]) expect(at int, want []T) {
	m.before = slices.Clone(kernel.BytesOf(m.all))
	m.after = slices.Clone(m.before)
	copy(m.after[(guard+at)*(len(m.after)/len(m.all)):], kernel.BytesOf(want))
}

// check compares m with its expected contents.
func (m *memory[T]) check() error {
	got := kernel.BytesOf(m.all)
	if bytes.Equal(got, m.after) {
		return nil
	}
	size := len(got) / len(m.all)
	for i := range m.all {
		if g, w := got[i*size:(i+1)*size], m.after[i*size:(i+1)*size]; !bytes.Equal(g, w) {
			return fmt.Errorf("element %d of %d is % x, want % x", i-guard, len(m.body), g, w)
		}
	}
	return nil
}

// collectiveTrial is a trial of any collective with elements of type T.
type collectiveTrial[T Element] struct {
	call
	k          codec[T]
	c          *Comm
	send, recv []T
	mem        []*memory[T] // one when in place
}

// try prepares call cl on this rank of c, with a Sum in place of an operation that T does not have.
func (k codec[T]) try(c *Comm, cl call) trial {
	if cl.op != 0 && !kernel.Op(cl.op).Takes(dtypeOf[T]()) {
		cl.op = Sum
	}
	t := &collectiveTrial[T]{call: cl, k: k, c: c}
	send, recv := cl.lengths(c.in.Rank, c.in.Size)
	origins, combined := cl.origins(c.in.Rank, c.in.Size), c.in.Size
	switch cl.kind {
	case plan.Scan:
		combined = c.in.Rank + 1
	case plan.ExScan:
		combined = c.in.Rank
	}
	want := make([]T, len(origins)*cl.count)
	for i, o := range origins {
		k.fill(want[i*cl.count:(i+1)*cl.count], cl, combined, o)
	}
	const unused = 3 // length of a slice that the call must leave alone
	if send < 0 || recv < 0 || !cl.inPlace {
		in, out := newMemory[T](max(send, unused)), newMemory[T](max(recv, unused))
		if send >= 0 {
			in = newMemory[T](send)
			k.fill(in.body, cl, c.in.Size, origin{rank: c.in.Rank})
		}
		if recv >= 0 {
			out = newMemory[T](recv)
		}
		in.expect(0, nil)
		out.expect(0, want)
		t.send, t.recv, t.mem = in.body, out.body, []*memory[T]{in, out}
		return t
	}
	both := newMemory[T](max(send, recv))
	t.send, t.recv, t.mem = both.body, both.body, []*memory[T]{both}
	mine := c.in.Rank * cl.count
	at := 0
	if send < recv {
		t.send = both.body[mine : mine+send]
	} else if recv < send {
		t.recv, at = both.body[mine:mine+recv], mine
	}
	k.fill(t.send, cl, c.in.Size, origin{rank: c.in.Rank})
	both.expect(at, want)
	return t
}

func (t *collectiveTrial[T]) String() string {
	s := fmt.Sprintf("%s %s count=%d", t.kind, t.k.name, t.count)
	if t.op != 0 {
		s += " " + t.op.String()
	}
	if t.premul {
		s += " pre-multiplied"
	}
	if t.kind.HasRoot() {
		s += fmt.Sprintf(" root=%d", t.root)
	}
	if t.inPlace {
		s += " in place"
	}
	return s
}

func (t *collectiveTrial[T]) reset() {
	for _, m := range t.mem {
		copy(kernel.BytesOf(m.all), m.before)
	}
}

func (t *collectiveTrial[T]) check() error {
	for i, m := range t.mem {
		if err := m.check(); err != nil {
			return fmt.Errorf("rank %d: %v: buffer %d: %w", t.c.in.Rank, t, i, err)
		}
	}
	return nil
}

func (t *collectiveTrial[T]) run(ctx context.Context) error {
	c, send, recv := t.c, t.send, t.recv
	switch f := t.k.of(factorOf(c.in.Rank)); {
	case t.kind == plan.AllReduce && t.premul:
		return AllReducePreMul(ctx, c, send, recv, f)
	case t.kind == plan.Reduce && t.premul:
		return ReducePreMul(ctx, c, send, recv, f, t.root)
	case t.kind == plan.ReduceScatter && t.premul:
		return ReduceScatterPreMul(ctx, c, send, recv, f)
	}
	switch t.kind {
	case plan.AllReduce:
		return AllReduce(ctx, c, send, recv, t.op)
	case plan.Reduce:
		return Reduce(ctx, c, send, recv, t.op, t.root)
	case plan.Broadcast:
		return Broadcast(ctx, c, send, recv, t.root)
	case plan.AllGather:
		return AllGather(ctx, c, send, recv)
	case plan.ReduceScatter:
		return ReduceScatter(ctx, c, send, recv, t.op)
	case plan.AllToAll:
		return AllToAll(ctx, c, send, recv)
	case plan.Gather:
		return Gather(ctx, c, send, recv, t.root)
	case plan.Scatter:
		return Scatter(ctx, c, send, recv, t.root)
	case plan.Scan:
		return Scan(ctx, c, send, recv, t.op)
	case plan.ExScan:
		return ExScan(ctx, c, send, recv, t.op)
	}
	return Barrier(ctx, c)
}

func (t *collectiveTrial[T]) start() (Request, error) {
	c, send, recv := t.c, t.send, t.recv
	switch t.kind {
	case plan.AllReduce:
		return StartAllReduce(c, send, recv, t.op)
	case plan.Reduce:
		return StartReduce(c, send, recv, t.op, t.root)
	case plan.Broadcast:
		return StartBroadcast(c, send, recv, t.root)
	case plan.AllGather:
		return StartAllGather(c, send, recv)
	case plan.ReduceScatter:
		return StartReduceScatter(c, send, recv, t.op)
	case plan.AllToAll:
		return StartAllToAll(c, send, recv)
	case plan.Gather:
		return StartGather(c, send, recv, t.root)
	case plan.Scatter:
		return StartScatter(c, send, recv, t.root)
	case plan.Scan:
		return StartScan(c, send, recv, t.op)
	case plan.ExScan:
		return StartExScan(c, send, recv, t.op)
	}
	return StartBarrier(c)
}

func (t *collectiveTrial[T]) prepare() (*Persistent, error) {
	c, send, recv := t.c, t.send, t.recv
	switch t.kind {
	case plan.AllReduce:
		return AllReduceInit(c, send, recv, t.op)
	case plan.Reduce:
		return ReduceInit(c, send, recv, t.op, t.root)
	case plan.Broadcast:
		return BroadcastInit(c, send, recv, t.root)
	case plan.AllGather:
		return AllGatherInit(c, send, recv)
	case plan.ReduceScatter:
		return ReduceScatterInit(c, send, recv, t.op)
	case plan.AllToAll:
		return AllToAllInit(c, send, recv)
	case plan.Gather:
		return GatherInit(c, send, recv, t.root)
	case plan.Scan:
		return ScanInit(c, send, recv, t.op)
	case plan.ExScan:
		return ExScanInit(c, send, recv, t.op)
	}
	return ScatterInit(c, send, recv, t.root)
}
