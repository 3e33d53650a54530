package device

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
)

// The dry machine runs the work that a Group enqueues, without any device: memory is Go's, streams are lists of
// functions, and a seeded scheduler takes the head of any stream that can continue. So every order that a device may
// choose can occur.

// dry is all ranks.
type dry struct {
	ranks   []*dryRank
	memory  map[cuda.Addr][]byte // by the first address
	bases   []cuda.Addr
	next    cuda.Addr
	flags   []byte // the segment, from address 0 on
	streams []*dryStream
}

type dryRank struct {
	d      *dry
	cfg    Config
	x      *executor
	queues map[*cuda.Stream]*dryStream
}

// dryStream is a queue of operations.
type dryStream struct {
	ops  []dryOp
	done int
}

type dryOp struct {
	ready func() bool
	do    func()
}

func (d *dry) alloc(n int) cuda.Addr {
	a := d.next
	d.next += cuda.Addr(n+4096) &^ 255
	d.memory[a] = bytes.Repeat([]byte{0xCC}, n)
	d.bases = append(d.bases, a)
	return a
}

// at returns n bytes at a, which must lie within one allocation.
func (d *dry) at(a cuda.Addr, n int64) []byte {
	i, found := slices.BinarySearch(d.bases, a)
	if !found {
		i--
	}
	if i < 0 {
		panic(fmt.Sprintf("no memory at address %#x", a))
	}
	from := int64(a - d.bases[i])
	return d.memory[d.bases[i]][from : from+n : from+n]
}

func (r *dryRank) queue(s *cuda.Stream, ready func() bool, do func()) {
	r.queues[s].ops = append(r.queues[s].ops, dryOp{ready, do})
}

func always() bool { return true }

// farthest returns where the farthest of some arrays lies for this rank, by its address.
func farthest(cfg *Config, pinned *cuda.Pinned[uint8], arrays []cuda.Addr) (where kernels.Where) {
	l := cfg.Layout
	in := func(a, from cuda.Addr, n int64) bool { return from != 0 && a >= from && a < from+cuda.Addr(n) }
	for _, a := range arrays {
		for i, at := range cfg.Slots {
			k := &l.links[i]
			_, owner := k.owner(l.rank)
			switch in := in(a, at, int64(l.Slots)*int64(l.bytesOf(k))); {
			case in && k.location == InHost:
				where = kernels.Host
			case in && !cfg.Near(owner):
				where = max(where, kernels.Peer)
			}
		}
		if pinned != nil && in(a, pinned.Addr(), int64(len(pinned.Host()))) {
			where = kernels.Host
		}
	}
	return where
}

// overwrites reports whether p writes memory that q reads or writes.
func overwrites(p, q kernels.Part) bool {
	return slices.ContainsFunc(p.To, func(a cuda.Addr) bool {
		return slices.ContainsFunc(slices.Concat(q.To, q.From), func(b cuda.Addr) bool {
			return a < b+cuda.Addr(q.Bytes) && b < a+cuda.Addr(p.Bytes)
		})
	})
}

func (r *dryRank) Run(s *cuda.Stream, w *kernel.Work, parts []kernels.Part) error {
	for i, p := range parts {
		if len(p.To) == 0 || len(p.From) == 0 || p.Bytes <= 0 {
			panic(fmt.Sprintf("a part %+v", p))
		}
		// Of a sum in several launches each carries the farthest array of all.
		if want := farthest(&r.cfg, nil, append(slices.Clone(p.To), p.From...)); p.Where < want {
			panic(fmt.Sprintf("a part %+v: its farthest array is %d", p, want))
		}
		if slices.ContainsFunc(parts[:i], func(q kernels.Part) bool { return overwrites(p, q) || overwrites(q, p) }) {
			panic(fmt.Sprintf("parts of a launch, which have no order, use the same memory: %+v", parts))
		}
		to, from, work := slices.Clone(p.To), slices.Clone(p.From), *w
		r.queue(s, always, func() {
			var srcs [][]byte
			for i, a := range from {
				src := r.d.at(a, p.Bytes)
				if p.Scaled == i+1 {
					src = bytes.Clone(src)
					kernel.ScaleCopy(work.DType, src, src, work.Factor)
				}
				srcs = append(srcs, src)
			}
			value := bytes.Clone(srcs[0])
			if len(srcs) > 1 {
				kernel.ReduceMany(work.Op, work.DType, value, srcs, false)
			}
			for _, a := range to {
				copy(r.d.at(a, p.Bytes), value)
			}
		})
	}
	return nil
}

func (r *dryRank) Divide(s *cuda.Stream, dt kernel.DType, dst, _ cuda.Addr, n, divisor int64) error {
	n *= int64(dt.Size())
	r.queue(s, always, func() { kernel.Scale(dt, r.d.at(dst, n), int(divisor)) })
	return nil
}

func (r *dryRank) memOps(s *cuda.Stream, ops []cuda.MemOp) error {
	for _, m := range ops {
		if m.Wait {
			r.queue(s, func() bool { return int32(word(r.d.flags, int(m.Addr)).Load()-m.Value) >= 0 }, func() {})
			continue
		}
		r.queue(s, always, func() {
			if at := word(r.d.flags, int(m.Addr)); !at.CompareAndSwap(m.Value-1, m.Value) {
				link := r.cfg.Layout.links[(int(m.Addr)-flagHead)/(4*flagLine)]
				panic(fmt.Sprintf("a counter of link %+v goes from %d to %d", link, at.Load(), m.Value))
			}
		})
	}
	return nil
}

// newDry makes the groups of all ranks of some plans, with the given number of streams each.
func newDry(t *testing.T, plans []*plan.Plan, slots, slotBytes, streams int, first uint32) *dry {
	t.Helper()
	d := &dry{memory: map[cuda.Addr][]byte{}, next: 1 << 20}
	size := plans[0].Size
	shape := Shape{Slots: slots, SlotBytes: slotBytes, Location: func(src, dst int) Location {
		if streams > 1 {
			return Location((src + dst) % int(Network))
		}
		return InDevice
	}}
	for _, p := range plans {
		if err := plan.Verify(p, slots); err != nil {
			t.Fatal(err)
		}
		shape.Plans = append(shape.Plans, p)
	}
	var given [locations][]cuda.Addr // by rank
	for r := range size {
		l, err := NewLayout(shape, r)
		if err != nil {
			t.Fatal(err)
		}
		if d.flags == nil {
			d.flags = make([]byte, l.FlagBytes())
			l.begin(d.flags, first)
			for p := range given {
				for _, n := range l.Owned[p] {
					given[p] = append(given[p], d.alloc(int(n)))
				}
			}
		}
		slots := slotsOf(l, func(p Location, src int) cuda.Addr { return given[p][src] })
		rank := &dryRank{d: d, queues: map[*cuda.Stream]*dryStream{}}
		rank.cfg = Config{Layout: l, Slots: slots, First: first, Flags: d.flags,
			Near: func(rank int) bool { return rank == r }}
		x := &executor{links: newLinks(&rank.cfg), kernels: rank, memOps: rank.memOps, err: func() error { return nil }}
		rank.x = x
		n := int(x.scratch.plan(l))
		x.scratch.base = d.alloc(n)
		for range streams {
			x.streams = append(x.streams, &stream{Stream: new(cuda.Stream)})
		}
		x.caller.Stream = new(cuda.Stream)
		for _, s := range append(slices.Clone(x.streams), &x.caller) {
			q := &dryStream{}
			rank.queues[s.Stream] = q
			d.streams = append(d.streams, q)
		}
		d.ranks = append(d.ranks, rank)
	}
	return d
}

// slotsOf returns the addresses of the slots that the layout's rank sees, by link, if those that a rank gives in a
// place begin at the address that at returns.
func slotsOf(l *Layout, at func(p Location, src int) cuda.Addr) []cuda.Addr {
	slots, _ := l.Addresses(func(p Location, src, from, _ int) (cuda.Addr, error) {
		return at(p, src) + cuda.Addr(from), nil
	})
	return slots
}

// begin lets the counters of a segment begin at first.
func (l *Layout) begin(segment []byte, first uint32) {
	clear(segment)
	for i := range l.links {
		word(segment, flagAt(i, published)).Store(first)
		word(segment, flagAt(i, released)).Store(first)
	}
}

// enqueue enqueues a call on all ranks. Behind it the input is spoiled, as a
// caller may do.
func (d *dry) enqueue(t *testing.T, which int, calls []Call) {
	t.Helper()
	for r, rank := range d.ranks {
		x, c := rank.x, &calls[r]
		p := &rank.cfg.Layout.plans[which]
		x.begin(p, c)
		if err := x.runBatches(x.streams); err != nil {
			t.Fatal(err)
		}
		rank.join()
		x.advance()
		if c.Out != c.In && c.Header.Count > 0 && p.plan.Kind == plan.AllReduce {
			rank.queue(rank.x.caller.Stream, always, func() {
				b := d.at(c.In, int64(c.Header.Count)*4)
				copy(b, bytes.Repeat([]byte{0xEE}, len(b)))
			})
		}
	}
}

// join makes the caller's stream wait for the operations that are in the other streams now.
func (r *dryRank) join() {
	for _, s := range r.x.streams {
		q := r.queues[s.Stream]
		upTo := q.done + len(q.ops)
		r.queue(r.x.caller.Stream, func() bool { return q.done >= upTo }, func() {})
	}
}

// run takes the heads of streams in the order of a seed until all are empty.
func (d *dry) run(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for {
		var can []*dryStream
		left := 0
		for _, s := range d.streams {
			if left += len(s.ops); len(s.ops) > 0 && s.ops[0].ready() {
				can = append(can, s)
			}
		}
		if len(can) == 0 {
			if left > 0 {
				t.Fatalf("stuck: %d operations are left", left)
			}
			return
		}
		s := can[rng.IntN(len(can))]
		for n := rng.IntN(4); n >= 0 && len(s.ops) > 0 && s.ops[0].ready(); n-- {
			s.ops[0].do()
			s.ops = s.ops[1:]
			s.done++
		}
	}
}

// input returns the input of a rank: small numbers that differ by rank and place.
func input(rank, count int) []byte {
	var b []byte
	for i := range count {
		b = binary.NativeEndian.AppendUint32(b, uint32(rank+1)*uint32(i%1000+1))
	}
	return b
}

// oracle returns the expected contents of a rank's Out for the inputs of input; nil where it has none.
func oracle(p *plan.Plan, rank, count int) []byte {
	switch p.Kind {
	case plan.Barrier:
		return nil
	case plan.AllReduce:
		return input(p.Size*(p.Size+1)/2-1, count)
	case plan.Reduce:
		if rank != p.Root {
			return nil
		}
		return input(p.Size*(p.Size+1)/2-1, count)
	case plan.Broadcast:
		return input(p.Root, count)
	case plan.Gather, plan.AllGather:
		if p.Kind == plan.Gather && rank != p.Root {
			return nil
		}
		var b []byte
		for r := range p.Size {
			b = append(b, input(r, count)...)
		}
		return b
	case plan.Scatter:
		return input(p.Root, count*p.Size)[4*count*rank:][:4*count]
	case plan.AllToAll:
		var b []byte
		for r := range p.Size {
			b = append(b, input(r, count*p.Size)[4*count*rank:][:4*count]...)
		}
		return b
	case plan.ReduceScatter:
		return input(p.Size*(p.Size+1)/2-1, count*p.Size)[4*count*rank:][:4*count]
	}
	panic(p.Kind)
}

// buffers allocates the buffers of a rank, apart or in place, and returns the call.
func (d *dry) buffers(p *plan.Plan, rank, count int, inPlace bool) Call {
	c := Call{Header: call.Header{Seq: 1, Count: uint64(count), What: call.What(uint8(p.Kind), 0, 0, 0, int32(p.Root))},
		Work: kernel.Work{DType: kernel.Int32, Op: kernel.Sum}}
	in, out := input(rank, count), 4*count
	switch p.Kind {
	case plan.Barrier:
		return c
	case plan.AllGather, plan.Gather:
		out *= p.Size
	case plan.ReduceScatter, plan.Scatter:
		in = input(rank, count*p.Size)
	case plan.AllToAll:
		in, out = input(rank, count*p.Size), out*p.Size
	}
	if !inPlace {
		c.In, c.Out = d.alloc(len(in)), d.alloc(out)
	} else {
		whole := d.alloc(max(len(in), out))
		c.In, c.Out = whole, whole
		switch p.Kind {
		case plan.AllGather, plan.Gather:
			c.In += cuda.Addr(rank * len(in))
		case plan.ReduceScatter, plan.Scatter:
			c.Out += cuda.Addr(rank * out)
		}
	}
	copy(d.at(c.In, int64(len(in))), in)
	return c
}

func (d *dry) check(t *testing.T, what string, p *plan.Plan, rank, count int, c *Call) {
	t.Helper()
	want := oracle(p, rank, count)
	if len(want) == 0 {
		return
	}
	if got := d.at(c.Out, int64(len(want))); !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		t.Fatalf("%s: rank %d: byte %d of %d is wrong", what, rank, i, len(want))
	}
}

// TestOrder runs plans of every shape in orders that the seeds choose, with many
// streams, few, and only one per rank, over few small slots. Two calls are queued.
func TestOrder(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 18} {
		all := shapes(t, n)
		if n > 16 { // one launch does not take them all
			all = slices.DeleteFunc(all, func(p *plan.Plan) bool { return p.Kind != plan.AllReduce || len(p.Lanes) > 1 })
		}
		for i, p := range all {
			for seed, shape := range orders {
				if n >= 8 && seed%2 == 1 || (seed+i)%3 > 0 && !testutil.Thorough() {
					continue
				}
				tryOrder(t, p, shape, uint64(seed))
			}
		}
	}
}

// order is how TestOrder runs a plan.
type order struct{ slots, bytes, streams, count int }

var orders = []order{
	{2, 64, 0, 100}, {2, 64, 1, 333}, {4, 256, 2, 1000}, {2, 128, 16, 700}, {8, 4096, 3, 1}, {2, 64, 16, 0},
}

// tryOrder runs two calls of a plan, apart and in place.
func tryOrder(t *testing.T, p *plan.Plan, o order, seed uint64) {
	t.Helper()
	count := o.count
	if p.Kind == plan.Barrier {
		count = 0
	}
	for _, inPlace := range []bool{false, true} {
		what := fmt.Sprintf("%d ranks, %s of %v, %+v, in place %v", p.Size, p.Name, p.Kind, o, inPlace)
		d := newDry(t, []*plan.Plan{p}, o.slots, o.bytes, o.streams, 1<<32-5)
		var calls [2][]Call
		for k := range calls {
			for r := range p.Size {
				calls[k] = append(calls[k], d.buffers(p, r, count, inPlace))
			}
			d.enqueue(t, 0, calls[k])
		}
		d.run(t, seed)
		for k := range calls {
			for r := range p.Size {
				d.check(t, what, p, r, count, &calls[k][r])
			}
		}
	}
}
