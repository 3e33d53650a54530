//go:build cgo && linux

package device

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// testCall is one call of all ranks, with its expected results.
type testCall struct {
	which   int // of the plans
	count   int
	dtype   kernel.DType
	op      kernel.Op
	inPlace bool
	scale   bool
	chunk   int
	seq     uint64
}

func (c *testCall) String() string {
	return fmt.Sprintf("call %d: %d elements of %v, %v, in place %v, scaled %v, chunks of %d", c.seq, c.count,
		c.dtype, c.op, c.inPlace, c.scale, c.chunk)
}

// element writes a small number as an element of a type.
func element(dt kernel.DType, v int) []byte {
	half := func(bits uint16) []byte { return []byte{byte(bits), byte(bits >> 8)} }
	switch dt {
	case kernel.Int8, kernel.Uint8:
		return []byte{byte(v)}
	case kernel.Float16:
		return half([]uint16{0, 0x3C00, 0x4000, 0x4200}[v])
	case kernel.BFloat16:
		return half([]uint16{0, 0x3F80, 0x4000, 0x4040}[v])
	case kernel.Float32:
		return []byte{0, 0, byte([]uint32{0, 0x3F80, 0x4000, 0x4040}[v]), byte([]uint32{0, 0x3F80, 0x4000, 0x4040}[v] >> 8)}
	case kernel.Float64:
		bits := []uint16{0, 0x3FF0, 0x4000, 0x4008}[v]
		return []byte{0, 0, 0, 0, 0, 0, byte(bits), byte(bits >> 8)}
	}
	b := make([]byte, dt.Size())
	b[0] = byte(v)
	return b
}

// gives returns the input of a rank in a testCall: numbers that no order of operations rounds.
func (c *testCall) gives(rank, elements int) []byte {
	rng := rand.New(rand.NewPCG(c.seq, uint64(rank)))
	var parts [4][]byte
	for v := range parts {
		parts[v] = element(c.dtype, v)
	}
	b := make([]byte, 0, elements*c.dtype.Size())
	for range elements {
		v := 1 + rng.IntN(3)
		if c.op == kernel.Prod {
			v = 1 + rng.IntN(2)
		}
		b = append(b, parts[v]...)
	}
	return b
}

// expected returns the final contents of the rank's Out; nil for none.
func (c *testCall) expected(p *plan.Plan, rank int) []byte {
	whole, n := c.count, c.count*c.dtype.Size()
	switch p.Kind {
	case plan.Barrier:
		return nil
	case plan.Broadcast:
		return c.gives(p.Root, c.count)
	case plan.AllGather, plan.Gather:
		if p.Kind == plan.Gather && rank != p.Root {
			return nil
		}
		var b []byte
		for r := range p.Size {
			b = append(b, c.gives(r, c.count)...)
		}
		return b
	case plan.Scatter:
		return c.gives(p.Root, c.count*p.Size)[n*rank:][:n]
	case plan.AllToAll:
		var b []byte
		for r := range p.Size {
			b = append(b, c.gives(r, c.count*p.Size)[n*rank:][:n]...)
		}
		return b
	case plan.Reduce:
		if rank != p.Root {
			return nil
		}
	case plan.ReduceScatter:
		whole *= p.Size
	}
	sum := c.scaled(c.gives(0, whole))
	for r := 1; r < p.Size; r++ {
		kernel.Reduce(c.op, c.dtype, sum, sum, c.scaled(c.gives(r, whole)))
	}
	if p.Kind == plan.ReduceScatter {
		sum = sum[rank*n:][:n]
	}
	if c.op == kernel.Avg {
		kernel.Scale(c.dtype, sum, p.Size)
	}
	return sum
}

// factor returns the factor of inputs: 2.
func (c *testCall) factor() (f kernel.Factor) {
	copy(f[:], element(c.dtype, 2))
	return f
}

func (c *testCall) scaled(b []byte) []byte {
	if c.scale {
		kernel.ScaleCopy(c.dtype, b, b, c.factor())
	}
	return b
}

func reduces(k plan.Kind) bool {
	return k == plan.AllReduce || k == plan.Reduce || k == plan.ReduceScatter
}

// under is a call under way on one rank.
type under struct {
	testCall *testCall
	plan     *plan.Plan
	in       cuda.Slice[uint8]
	out      cuda.Slice[uint8]
	all      []cuda.Slice[uint8]
}

// allocate makes the buffers of a testCall for rank r. shift is their distance, in elements, from the beginning of
// their allocations.
func (m *machine) allocate(r int, c *testCall, shift int) (*under, error) {
	p := m.plans[c.which]
	u := &under{testCall: c, plan: p}
	elem := c.dtype.Size()
	ins, outs := c.count, c.count
	switch p.Kind {
	case plan.AllGather, plan.Gather:
		outs *= p.Size
	case plan.ReduceScatter, plan.Scatter:
		ins *= p.Size
	case plan.AllToAll:
		ins, outs = ins*p.Size, outs*p.Size
	}
	alloc := func(n int) (cuda.Slice[uint8], error) {
		a, err := cuda.Alloc[uint8](m.devices[r], (n+shift)*elem)
		u.all = append(u.all, a)
		if err != nil {
			return a, err
		}
		return a.Slice(shift*elem, (n+shift)*elem), nil
	}
	in, err := alloc(max(ins, outs))
	if err != nil {
		return nil, err
	}
	u.in, u.out = in.Slice(0, ins*elem), in.Slice(0, outs*elem)
	switch {
	case !c.inPlace:
		if u.out, err = alloc(outs); err != nil {
			return nil, err
		}
	case p.Kind == plan.AllGather || p.Kind == plan.Gather:
		u.in = in.Slice(r*ins*elem, (r+1)*ins*elem)
	case p.Kind == plan.ReduceScatter || p.Kind == plan.Scatter:
		u.out = in.Slice(r*outs*elem, (r+1)*outs*elem)
	}
	return u, nil
}

// enqueue makes the buffers of a testCall for rank r and enqueues it on s.
func (m *machine) enqueue(r int, s *cuda.Stream, c *testCall, shift int) (*under, error) {
	u, err := m.allocate(r, c, shift)
	if err != nil {
		return nil, err
	}
	return u, m.begin(r, s, u)
}

// begin fills the input of u and enqueues the call on s; and behind it work that overwrites the input, as a caller may.
func (m *machine) begin(r int, s *cuda.Stream, u *under) error {
	c, p := u.testCall, u.plan
	given := c.gives(r, int(u.in.Bytes())/c.dtype.Size())
	if err := u.in.CopyFrom(context.Background(), s, given); err != nil {
		return err
	}
	call := &Call{
		Header: call.Header{Seq: c.seq, Count: uint64(c.count),
			What: call.What(uint8(p.Kind), uint8(c.op), uint8(c.dtype), 0, int32(p.Root))},
		In: u.in.Addr(), Out: u.out.Addr(), Work: kernel.Work{DType: c.dtype}, Chunks: plan.Chunks{Max: c.chunk},
	}
	if reduces(p.Kind) {
		call.Op = c.op
		if c.op == kernel.Avg {
			call.Divide = p.Size
		}
		call.Scale, call.Factor = c.scale, c.factor()
	}
	if p.Kind == plan.Reduce && r != p.Root {
		call.Out, call.Divide = 0, 0
	}
	if err := m.groups[r].Enqueue(c.which, s, call); err != nil || c.inPlace {
		return err
	}
	return s.Memset(u.in.Addr(), 0xEE, u.in.Bytes())
}

// check waits for s and compares the result of u.
func (m *machine) check(r int, s *cuda.Stream, u *under) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	want := u.testCall.expected(u.plan, r)
	got := make([]byte, len(want))
	if err := s.Synchronize(ctx); err != nil {
		return err
	}
	if err := m.groups[r].Err(); err != nil {
		return err
	}
	if err := u.out.Slice(0, len(want)).CopyTo(ctx, s, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		return fmt.Errorf("%s of %v, %v: byte %d of %d is %#x, want %#x", u.plan.Name, u.plan.Kind, u.testCall, i, len(want),
			got[i], want[i])
	}
	return nil
}

// run enqueues all trials on two streams of every rank, up to depth at a time,
// and compares every result. Buffers are freed in the end, as that waits for all
// that the device has to do.
func (m *machine) run(trials []testCall, depth int) {
	m.t.Helper()
	all := make([][]*under, len(trials))
	for i := range trials {
		for r := range m.groups {
			u, err := m.allocate(r, &trials[i], i%2)
			m.must(err)
			all[i] = append(all[i], u)
		}
	}
	m.each(func(r int) error {
		var streams [2]*cuda.Stream
		for i := range streams {
			s, err := m.devices[r].NewStream()
			if err != nil {
				return err
			}
			defer s.Close()
			streams[i] = s
		}
		checked := 0
		for i := range trials {
			if err := m.begin(r, streams[i%3%2], all[i][r]); err != nil {
				return fmt.Errorf("%v: %w", &trials[i], err)
			}
			if i-checked+1 < depth && i < len(trials)-1 {
				continue
			}
			for ; checked <= i; checked++ {
				if err := m.check(r, streams[checked%3%2], all[checked][r]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for i := range all {
		for _, u := range all[i] {
			for _, a := range u.all {
				m.must(a.Free())
			}
		}
	}
}

// mixture makes trials of all plans with the given counts; types, operations and
// the rest follow each other.
func mixture(plans []*plan.Plan, counts []int, seed uint64) []testCall {
	rng := rand.New(rand.NewPCG(seed, 3))
	var all []testCall
	n := 0
	for _, count := range counts {
		for i, p := range plans {
			n++
			c := testCall{which: i, count: count, dtype: kernel.Int8 + kernel.DType(n%10), op: kernel.Sum + kernel.Op(n/3%5),
				inPlace: rng.IntN(2) == 0, scale: rng.IntN(4) == 0 && reduces(p.Kind), seq: uint64(n)}
			switch {
			case p.Kind == plan.Barrier:
				c.count, c.dtype, c.op = 0, kernel.Uint8, 0
			case !reduces(p.Kind):
				c.op = 0
			case c.scale:
				c.op = kernel.Sum
			}
			if rng.IntN(3) == 0 {
				c.chunk = 64 << rng.IntN(12)
			}
			all = append(all, c)
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		all[i].seq = uint64(i + 1)
	}
	return all
}

// buffers returns the memory of a call, which may not have begun.
func (u *under) buffers() []cuda.Slice[uint8] {
	if u == nil {
		return nil
	}
	return u.all
}
