package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// eachRank opens the links of the plans, lane after lane, binds them, and calls
// f as every rank, side by side.
func eachRank(t *testing.T, plans []*plan.Plan, slots, slotBytes int,
	f func(rank int, programs []*Program, w *Waiter) error) {
	t.Helper()
	layout := transport.Layout{Size: plans[0].Size, Slots: slots, SlotBytes: slotBytes, HeapBytes: transport.HeapGrain}
	next, first := 0, make([]int, len(plans))
	for i, p := range plans {
		first[i] = next
		next += len(p.Lanes)
	}
	eps, err := openAll(layout)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for r, ep := range eps {
		all.Go(func() {
			links := New(ep, r, &layout, -1, false, Lending{From: 8 << 10})
			programs := make([]*Program, len(plans))
			for i, p := range plans {
				var err error
				if programs[i], err = Bind(p, links, first[i], false); err != nil {
					t.Error(err)
					return
				}
			}
			if err := f(r, programs, &Waiter{Spins: 10, Yields: 10}); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	all.Wait()
	for _, ep := range eps {
		if err := ep.Close(); err != nil {
			t.Error(err)
		}
	}
}

func binomials(n int) []topo.Tree {
	trees := make([]topo.Tree, n)
	for r := range trees {
		trees[r] = binomial(n, r)
	}
	return trees
}

func fromTrees(t *testing.T, kind plan.Kind, trees []topo.Tree, form plan.Form) *plan.Plan {
	t.Helper()
	p, err := plan.FromTrees(kind, trees, nil, form)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sumOf(seq, count int) Call {
	return Call{Args: Args{
		ID: call.ID{Seq: uint64(seq), Count: uint64(count), Kind: call.AllReduce, Op: kernel.Sum,
			DType: kernel.Int32, Root: -1},
		Work: kernel.Work{DType: kernel.Int32, Op: kernel.Sum},
	}}
}

// TestInFlight starts many calls of two programs before it waits for any: each
// has its own result, and they are done in order.
func TestInFlight(t *testing.T) {
	for _, n := range []int{1, 2, 5, 8} {
		plans := []*plan.Plan{
			fromTrees(t, plan.AllReduce, binomials(n)[:1], plan.Single),
			fromTrees(t, plan.AllReduce, binomials(n), plan.Split),
		}
		eachRank(t, plans, 2, 256, func(rank int, programs []*Program, w *Waiter) error {
			const calls = 40
			all, outs := make([]Call, calls), make([][]byte, calls)
			for i := range all {
				count := i * 17 % 900
				all[i] = sumOf(i+1, count)
				outs[i] = make([]byte, 4*count)
				all[i].In, all[i].Out = numbers(rank, count), outs[i]
				programs[i/3%2].Start(&all[i])
				if err := programs[0].e.Poll(); err != nil {
					return err
				}
			}
			for _, i := range []int{7, 3, calls - 1, 20} {
				if fault, failed := programs[0].e.Wait(context.Background(), &all[i], w); failed {
					return fmt.Errorf("call %d: %+v", i, fault)
				}
				for j := range i {
					if !all[j].Done() {
						return fmt.Errorf("call %d is done, call %d before it is not", i, j)
					}
				}
			}
			for i := range all {
				if !slices.Equal(outs[i], numbers(n*(n+1)/2-1, i*17%900)) {
					return fmt.Errorf("call %d has a wrong result", i)
				}
			}
			if !programs[0].e.Idle() {
				return fmt.Errorf("calls are under way after the last")
			}
			return nil
		})
	}
}

// TestPieces sends one message that lies in many pieces, of every length from
// nothing to several chunks.
func TestPieces(t *testing.T) {
	const n = 3
	lengths := []int{1, 0, 700, 3, 64, 1, 1, 2000, 0, 5}
	eachRank(t, []*plan.Plan{fromTrees(t, plan.AllReduce, binomials(n), plan.Split)}, 4, 1024,
		func(rank int, programs []*Program, w *Waiter) error {
			total, c := 0, Call{}
			for i, count := range lengths {
				total += count
				p := Piece{In: numbers(rank+i, count), Out: make([]byte, 4*count), End: 4 * total}
				if i%2 == 1 {
					p.Out = p.In
				}
				c.Pieces = append(c.Pieces, p)
			}
			pieces := slices.Clone(c.Pieces)
			c = sumOf(1, total)
			c.Pieces = slices.Clone(pieces)
			if fault, failed := programs[0].Run(context.Background(), &c, w); failed {
				return fmt.Errorf("%+v", fault)
			}
			for i, count := range lengths {
				want := numbers(n*(n+1)/2+n*i-1, count)
				if !slices.Equal(pieces[i].Out, want) {
					return fmt.Errorf("piece %d of %d elements: wrong result", i, count)
				}
			}
			return nil
		})
}

// TestParts gathers and scatters messages with one part per rank, whose shorter
// buffers hold one part only.
func TestParts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		for _, count := range []int{0, 1, 100, 3000} {
			gather := fromTrees(t, plan.AllGather, binomials(n), plan.Split)
			scatter := fromTrees(t, plan.ReduceScatter, binomials(n), plan.Split)
			eachRank(t, []*plan.Plan{gather, scatter}, 2, 1024, func(rank int, programs []*Program, w *Waiter) error {
				c := sumOf(1, count)
				c.ID.Kind, c.ID.Op, c.Op = call.AllGather, 0, 0
				out := make([]byte, 4*n*count)
				c.In, c.Out = numbers(rank, count), out
				if fault, failed := programs[0].Run(context.Background(), &c, w); failed {
					return fmt.Errorf("AllGather: %+v", fault)
				}
				var want []byte
				for r := range n {
					want = append(want, numbers(r, count)...)
				}
				if !slices.Equal(out, want) {
					return fmt.Errorf("%d ranks, parts of %d: AllGather is wrong", n, count)
				}
				c = sumOf(2, count)
				c.ID.Kind = call.ReduceScatter
				out = make([]byte, 4*count)
				c.In, c.Out = numbers(rank, n*count), out
				if fault, failed := programs[1].Run(context.Background(), &c, w); failed {
					return fmt.Errorf("ReduceScatter: %+v", fault)
				}
				if !slices.Equal(out, numbers(n*(n+1)/2-1, n*count)[4*count*rank:4*count*(rank+1)]) {
					return fmt.Errorf("%d ranks, parts of %d: ReduceScatter is wrong", n, count)
				}
				return nil
			})
		}
	}
}

// TestScaleAndDivide multiplies inputs and divides results.
func TestScaleAndDivide(t *testing.T) {
	const n, count = 4, 500
	eachRank(t, []*plan.Plan{fromTrees(t, plan.AllReduce, binomials(n), plan.Split)}, 2, 512,
		func(rank int, programs []*Program, w *Waiter) error {
			c := sumOf(1, count)
			out := make([]byte, 4*count)
			c.In, c.Out = numbers(rank, count), out
			c.Scale, c.Divide = true, 5
			binary.NativeEndian.PutUint32(c.Factor[:], 3)
			if fault, failed := programs[0].Run(context.Background(), &c, w); failed {
				return fmt.Errorf("%+v", fault)
			}
			if !slices.Equal(out, numbers(5, count)) { // (1+2+3+4) * 3 / 5 = 6 times the element's number
				return fmt.Errorf("not 6, 12, 18, ...: % x", out[:16])
			}
			return nil
		})
}

// TestMerge: a rank with several children reads their chunks in one step, and
// sends one chunk to several ranks in one step.
func TestMerge(t *testing.T) {
	p := fromTrees(t, plan.AllReduce, binomials(8)[:1], plan.Single)
	eachRank(t, []*plan.Plan{p}, 2, 256, func(rank int, programs []*Program, _ *Waiter) error {
		if rank != 0 {
			return nil
		}
		tracks := programs[0].tracks
		if len(tracks) != 1 || len(tracks[0].steps) != 1 {
			return fmt.Errorf("%d tracks, the first with %d steps", len(tracks), len(tracks[0].steps))
		}
		if s := tracks[0].steps[0]; len(s.operands) != 4 || len(s.outs) != 3 || s.Dst != plan.Out {
			return fmt.Errorf("%d operands, %d receivers, into %d", len(s.operands), len(s.outs), s.Dst)
		}
		return nil
	})
}
