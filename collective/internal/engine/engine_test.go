package engine

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// binomial returns the tree of recursive doubling with the given root.
func binomial(n, root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, n), Round: make([]int, n)}
	t.Parent[root] = -1
	for v := 1; v < n; v++ {
		bit := v & -v
		round := 1
		for 1<<(round-1) != bit {
			round++
		}
		t.Parent[(v+root)%n] = (v - bit + root) % n
		t.Round[(v+root)%n] = round
	}
	return t
}

// runPlan runs a plan as all ranks, over mem, and returns the Out of every rank. in(rank) is its In.
func runPlan(t *testing.T, p *plan.Plan, slots, slotBytes, count int, in func(rank int) []byte) ([][]byte,
	[]transport.Fault) {
	t.Helper()
	out := make([][]byte, p.Size)
	faults := make([]transport.Fault, p.Size)
	eachRank(t, []*plan.Plan{p}, slots, slotBytes, func(r int, programs []*Program, w *Waiter) error {
		out[r] = make([]byte, 4*count)
		for seq := uint64(1); seq <= 2; seq++ {
			c := &Call{Args: Args{
				ID: call.ID{Seq: seq, Count: uint64(count), Kind: call.Kind(p.Kind), Op: kernel.Sum,
					DType: kernel.Int32, Root: int32(p.Root)},
				In: in(r), Out: out[r], Work: kernel.Work{DType: kernel.Int32, Op: kernel.Sum},
			}}
			faults[r], _ = programs[0].Run(context.Background(), c, w)
		}
		return nil
	})
	return out, faults
}

func numbers(rank, count int) []byte {
	var b []byte
	for i := range count {
		b = binary.NativeEndian.AppendUint32(b, uint32(rank+1)*uint32(i+1))
	}
	return b
}

// TestRunMatchesOracle runs plans of every kind over links of several shapes;
// the oracle adds up the ranks' numbers one by one.
func TestRunMatchesOracle(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 6, 9, 5, 7, 8}[:testutil.Count(6, 9)] {
		trees := make([]topo.Tree, n)
		for r := range trees {
			trees[r] = binomial(n, r)
		}
		for _, shape := range []struct{ slots, bytes, count int }{{2, 64, 1000}, {8, 4096, 5000}, {4, 16384, 0},
			{4, 16384, 3}, {2, 16384, 40000}} {
			for _, form := range []plan.Form{plan.Single, plan.Split} {
				p, err := plan.FromTrees(plan.AllReduce, trees, nil, form)
				if err != nil {
					t.Fatal(err)
				}
				out, faults := runPlan(t, p, shape.slots, shape.bytes, shape.count,
					func(r int) []byte { return numbers(r, shape.count) })
				want := numbers(n*(n+1)/2-1, shape.count)
				for r := range out {
					if faults[r] != (transport.Fault{}) || !slices.Equal(out[r], want) {
						t.Fatalf("%d ranks, form %v, %+v: rank %d: wrong result, fault %+v", n, form, shape, r, faults[r])
					}
				}
			}
			root := n / 2
			p, err := plan.FromTrees(plan.Broadcast, trees[root:root+1], nil, plan.Single)
			if err != nil {
				t.Fatal(err)
			}
			out, faults := runPlan(t, p, shape.slots, shape.bytes, shape.count,
				func(r int) []byte { return numbers(r, shape.count) })
			for r := range out {
				if faults[r] != (transport.Fault{}) || !slices.Equal(out[r], numbers(root, shape.count)) {
					t.Fatalf("%d ranks, %+v: broadcast: rank %d: wrong result, fault %+v", n, shape, r, faults[r])
				}
			}
		}
	}
}

// Run executes the program for call c and returns when this rank's part of it is done, or with the fault of the
// Endpoint.
func (pr *Program) Run(ctx context.Context, c *Call, w *Waiter) (transport.Fault, bool) {
	pr.Start(c)
	return pr.e.Wait(ctx, c, w)
}
