package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
)

// reductions returns plans for an AllReduce among n ranks: over trees, whose
// tracks go both ways at once or one after the other, and with slices.
func reductions(t *testing.T, n int) []*plan.Plan {
	t.Helper()
	trees := make([]topo.Tree, n)
	for r := range trees {
		trees[r] = binomial(n, r)
	}
	var all []*plan.Plan
	for _, form := range []plan.Form{plan.Single, plan.Split} {
		tree, err := plan.FromTrees(plan.AllReduce, trees, nil, form)
		if err != nil {
			t.Fatal(err)
		}
		direct, err := plan.Direct(plan.AllReduce, n, -1, form)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tree, direct)
	}
	return all
}

// TestInPlaceManyTimes reduces in place, again and again without a pause, with
// chunks that may come before their step is due: nothing that is still to be sent
// is written over. The numbers grow by the number of ranks each time.
func TestInPlaceManyTimes(t *testing.T) {
	const calls, count = 6, 30000
	for n := 2; n <= 5; n++ {
		for _, p := range reductions(t, n) {
			eachRank(t, []*plan.Plan{p}, 4, 4096, func(r int, programs []*Program, w *Waiter) error {
				buf := numbers(0, count)
				want := uint32(1)
				for seq := uint64(1); seq <= calls; seq++ {
					c := &Call{Args: Args{
						ID: call.ID{Seq: seq, Count: count, Kind: call.Kind(p.Kind), Op: kernel.Sum,
							DType: kernel.Int32, Root: -1},
						In: buf, Out: buf, Work: kernel.Work{DType: kernel.Int32, Op: kernel.Sum},
					}}
					if fault, aborted := programs[0].Run(context.Background(), c, w); aborted {
						return fmt.Errorf("call %d: %+v", seq, fault)
					}
					want *= uint32(n)
				}
				if !slices.Equal(buf, numbers(int(want)-1, count)) {
					return fmt.Errorf("plan %s: wrong result after %d calls", p.Name, calls)
				}
				return nil
			})
		}
	}
}

// TestMarkAhead: of every slice that a rank does not make itself it is known where
// the result belongs before it comes, in place too; nothing else is.
func TestMarkAhead(t *testing.T) {
	openAll = connectAll
	defer func() { openAll = connectShm }()
	const n = 3
	for _, p := range reductions(t, n) {
		eachRank(t, []*plan.Plan{p}, 4, 4096, func(_ int, programs []*Program, _ *Waiter) error {
			ahead := 0
			for _, track := range programs[0].tracks {
				for _, s := range track.steps {
					if s.prePosted != s.prePostedInPlace {
						return fmt.Errorf("plan %s: %+v", p.Name, s)
					}
					if s.prePosted {
						ahead++
					}
				}
			}
			if ahead != n-1 {
				return fmt.Errorf("plan %s: %d steps are marked, want %d", p.Name, ahead, n-1)
			}
			return nil
		})
	}
}
