//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/treerun/treerun/collective"
)

// kinds are the calls that the looper makes, by name.
var kinds = []string{
	"AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter", "AllToAll", "Gather", "Scatter", "Barrier",
	"Scan", "ExScan", "AllReducePreMul", "AllReduceCoalesced", "BroadcastCoalesced", "Send", "StartSend", "SendRecv",
}

// sizes are the bytes of a message, around the sizes at which its path changes.
var sizes = []int{
	0, 4, 32, 48, 52, 1 << 10, 4 << 10, 16<<10 - 4, 16 << 10, 16<<10 + 4, 64<<10 - 4, 64 << 10, 64<<10 + 4, 128 << 10,
	256<<10 + 4, 512 << 10, 1 << 20, 1<<20 + 4, 2 << 20, 4 << 20, 8 << 20,
}

// maxBytes bounds the buffer of one call.
const maxBytes = 8 << 20

// call is one call; all ranks draw the same.
type call struct {
	number  int
	kind    string
	count   int // elements of a message, or of one part of it
	root    int
	op      collective.Op
	inPlace bool
	start   bool // by Start and Wait, if the kind has them
	float   bool // elements are float32, else int32
	salt    uint32
}

// String describes the call for a message.
func (k call) String() string {
	return fmt.Sprintf("call %d, %s of %d elements, root %d, op %v, in place %v, started %v, float32 %v",
		k.number, k.kind, k.count, k.root, k.op, k.inPlace, k.start, k.float)
}

// draw returns call i of a job with the given number of ranks.
func draw(rng *rand.Rand, i, ranks int, kinds []string, bytes int) call {
	k := call{number: i, kind: kinds[rng.IntN(len(kinds))], root: i % ranks, salt: rng.Uint32()}
	k.op = []collective.Op{collective.Sum, collective.Max}[rng.IntN(2)]
	k.inPlace, k.start, k.float = rng.IntN(2) == 0, rng.IntN(3) == 0, rng.IntN(2) == 0
	size := sizes[rng.IntN(len(sizes))]
	if bytes >= 0 {
		size = bytes
	}
	if slices.Contains([]string{"AllGather", "ReduceScatter", "AllToAll", "Gather", "Scatter"}, k.kind) {
		size = min(size, maxBytes/ranks)
	}
	k.count = size / 4
	return k
}

// number is an element type that holds all values exactly.
type number interface{ int32 | float32 }

// poison fills a buffer before a call, and is not the result of any.
const poison = -1

// period is the number of elements after which values repeat, in the input of a rank and in every
// part of a result. That makes buffers quick to fill, so that ranks are mostly in calls.
const period = 1 << 14

// fill sets the elements of s to f of their numbers.
func fill[T number](s []T, f func(j int) int32) {
	done := min(len(s), period)
	for j := range done {
		s[j] = T(f(j))
	}
	for done < len(s) {
		done += copy(s[done:], s[:done])
	}
}

// value returns element j of the input of rank r.
func (k call) value(r, j int) int32 {
	return int32((k.salt*uint32(r+1) + 7*uint32(j)) % period)
}

// reduced returns element j of the reduction of all inputs.
func (k call) reduced(ranks, j int) int32 {
	var all int32
	for r := range ranks {
		switch v := k.value(r, j); {
		case k.kind == "AllReducePreMul":
			all += int32(r+1) * v
		case k.op == collective.Max:
			all = max(all, v)
		default:
			all += v
		}
	}
	return all
}

// buffers are those of a rank, used for all its calls: the data of an earlier call stays in
// them until prepare.
type buffers[T number] struct{ send, recv, want []T }

func newBuffers[T number]() *buffers[T] {
	return &buffers[T]{make([]T, maxBytes/4), make([]T, maxBytes/4), make([]T, maxBytes/4)}
}

// prepared is a call that can be made. Its right result is in want.
type prepared[T number] struct {
	call
	c          *collective.Comm
	send, recv []T
	want       []T // of recv
}

// wrongResult is an error that no rank may ever see.
type wrongResult struct{ text string }

func (e wrongResult) Error() string { return e.text }

// parts returns the numbers of parts, of k.count elements each, in the input and the result of rank me, and
// element j of part i of its result.
func (k call) parts(me, ranks int) (give, take int, want func(i, j int) int32) {
	mine := me * k.count
	rootOnly := func(n int) int {
		if me != k.root {
			return 0
		}
		return n
	}
	reduced := func(_, j int) int32 { return k.reduced(ranks, j) }
	switch k.kind {
	case "AllReduce", "AllReducePreMul", "AllReduceCoalesced":
		return 1, 1, reduced
	case "Reduce":
		return 1, rootOnly(1), reduced
	case "Broadcast", "BroadcastCoalesced":
		return rootOnly(1), 1, func(_, j int) int32 { return k.value(k.root, j) }
	case "Scan":
		return 1, 1, func(_, j int) int32 { return k.reduced(me+1, j) }
	case "ExScan":
		switch {
		case me > 0:
			return 1, 1, func(_, j int) int32 { return k.reduced(me, j) }
		case k.inPlace: // recv stays as it was
			return 1, 1, k.value
		}
		return 1, 1, func(int, int) int32 { return poison }
	case "AllGather":
		return 1, ranks, k.value
	case "Gather":
		return 1, rootOnly(ranks), k.value
	case "ReduceScatter":
		return ranks, 1, func(_, j int) int32 { return k.reduced(ranks, mine+j) }
	case "Scatter":
		return rootOnly(ranks), 1, func(_, j int) int32 { return k.value(k.root, mine+j) }
	case "AllToAll":
		return ranks, ranks, func(i, j int) int32 { return k.value(i, mine+j) }
	case "Send", "StartSend", "SendRecv":
		return 1, 1, func(_, j int) int32 { return k.value((me+ranks-1)%ranks, j) }
	}
	return 0, 0, nil
}

// prepare fills the buffers of k: send with the input of this rank, recv with poison.
func (b *buffers[T]) prepare(c *collective.Comm, k call) *prepared[T] {
	me, n := c.Rank(), k.count
	give, take, want := k.parts(me, c.Size())
	p := &prepared[T]{call: k, c: c}
	if give > 0 {
		p.send = b.send[:n*give]
		fill(p.send, func(j int) int32 { return k.value(me, j) })
	}
	if take > 0 {
		p.recv, p.want = b.recv[:n*take], b.want[:n*take]
		fill(p.recv, func(int) int32 { return poison })
		for i := range take {
			fill(p.want[i*n:(i+1)*n], func(j int) int32 { return want(i, j) })
		}
	}
	if k.inPlace && p.send != nil && p.recv != nil {
		p.putInPlace(me)
	}
	return p
}

// putInPlace makes send and recv the same memory, as each call allows it.
func (p *prepared[T]) putInPlace(me int) {
	n := p.count
	switch p.kind {
	case "Send", "StartSend", "SendRecv": // not possible
	case "AllGather", "Gather":
		part := p.recv[me*n : (me+1)*n]
		copy(part, p.send)
		p.send = part
	case "ReduceScatter", "Scatter":
		p.recv = p.send[me*n : (me+1)*n]
	default:
		p.recv = p.send
	}
}

// check compares the whole result of the call, and the buffers that it must not have changed.
func (p *prepared[T]) check() error {
	bad, first := 0, 0
	for j, want := range p.want {
		if p.recv[j] != want {
			if bad++; bad == 1 {
				first = j
			}
		}
	}
	if bad > 0 {
		return wrongResult{fmt.Sprintf("%v: %d of %d elements are wrong, the first is number %d: %v, want %v",
			p.call, bad, len(p.recv), first, p.recv[first], p.want[first])}
	}
	if p.inPlace {
		return nil
	}
	for j := range min(len(p.send), period) { // the elements that a faulty call would write
		if p.send[j] != T(p.value(p.c.Rank(), j)) {
			return wrongResult{fmt.Sprintf("%v: element %d of send was changed to %v", p.call, j, p.send[j])}
		}
	}
	return nil
}

// pieces splits a slice into the arguments of a coalesced call.
func pieces[T number](s []T) [][]T {
	if s == nil {
		return nil
	}
	a, b := len(s)/5, len(s)/2
	return [][]T{s[:a], s[a:b], s[b:]}
}

// waiter is a Request or a Message.
type waiter interface{ Wait(context.Context) error }

// wait waits for the end of a call that was begun.
func wait[W waiter](ctx context.Context, w W, err error) error {
	if err != nil {
		return err
	}
	return w.Wait(ctx)
}

// do makes the call.
func (p *prepared[T]) do(ctx context.Context) error {
	var k *collective.Persistent // runs and starts like the call itself
	var err error
	switch c := p.c; p.kind {
	case "AllReduce":
		k, err = collective.AllReduceInit(c, p.send, p.recv, p.op)
	case "AllReducePreMul":
		k, err = collective.AllReducePreMulInit(c, p.send, p.recv, T(c.Rank()+1))
	case "Reduce":
		k, err = collective.ReduceInit(c, p.send, p.recv, p.op, p.root)
	case "Broadcast":
		k, err = collective.BroadcastInit(c, p.send, p.recv, p.root)
	case "AllGather":
		k, err = collective.AllGatherInit(c, p.send, p.recv)
	case "ReduceScatter":
		k, err = collective.ReduceScatterInit(c, p.send, p.recv, p.op)
	case "Scan":
		k, err = collective.ScanInit(c, p.send, p.recv, p.op)
	case "ExScan":
		k, err = collective.ExScanInit(c, p.send, p.recv, p.op)
	case "AllToAll":
		k, err = collective.AllToAllInit(c, p.send, p.recv)
	case "Gather":
		k, err = collective.GatherInit(c, p.send, p.recv, p.root)
	case "Scatter":
		k, err = collective.ScatterInit(c, p.send, p.recv, p.root)
	case "Barrier":
		k, err = collective.BarrierInit(c)
	case "AllReduceCoalesced":
		return collective.AllReduceCoalesced(ctx, c, pieces(p.send), pieces(p.recv), p.op)
	case "BroadcastCoalesced":
		return collective.BroadcastCoalesced(ctx, c, pieces(p.send), pieces(p.recv), p.root)
	default:
		return p.pass(ctx)
	}
	switch {
	case err != nil:
		return err
	case p.start:
		r, err := k.Start()
		return wait(ctx, r, err)
	}
	return k.Run(ctx)
}

// pass sends a message to the next rank, and receives that of the one before.
func (p *prepared[T]) pass(ctx context.Context) error {
	c, me, ranks := p.c, p.c.Rank(), p.c.Size()
	next, last := (me+1)%ranks, (me+ranks-1)%ranks
	tag := p.number % 5
	send := func() error { return collective.Send(ctx, c, p.send, next, tag) }
	recv := func() error {
		_, err := collective.Recv(ctx, c, p.recv, last, tag)
		return err
	}
	switch p.kind {
	case "SendRecv":
		_, err := collective.SendRecv(ctx, c, p.send, next, p.recv, last, tag)
		return err
	case "StartSend":
		in, err := collective.StartRecv(c, p.recv, last, tag)
		if err != nil {
			return err
		}
		out, err := collective.StartSend(c, p.send, next, tag)
		if err := wait(ctx, out, err); err != nil {
			return err
		}
		return in.Wait(ctx)
	case "Send":
		first, second := send, recv
		if me%2 == 1 {
			first, second = recv, send
		}
		if err := first(); err != nil {
			return err
		}
		return second()
	}
	return fmt.Errorf("no call is named %s", p.kind)
}

// try makes the call and, if it returns no error, compares its result.
func (p *prepared[T]) try(ctx context.Context) error {
	latestCall.Store(time.Now().UnixMicro())
	if err := p.do(ctx); err != nil {
		return err
	}
	return p.check()
}
