package plan

import (
	"errors"
	"slices"
	"testing"
)

// TestInOrder: plans that add in the order of the ranks have steps in which every operand comes from lower ranks than
// the next, and a plan that adds in another order has none.
func TestInOrder(t *testing.T) {
	for size := 1; size <= 9; size++ {
		var plans []*Plan
		add := func(p *Plan, err error) {
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, p)
		}
		one := [][]int{slices.Concat(Alone(size)...)}
		for _, kind := range []Kind{AllReduce, Reduce, ReduceScatter} {
			add(DirectHosts(kind, one, size/2, Split))
		}
		add(Star(AllReduce, size, size-1))
		add(Leaders(AllReduce, Alone(size), Everybody))
		for _, way := range []Way{AtOnce, InRounds, InARow} {
			add(NewScan(Scan, size, way))
			add(NewScan(ExScan, size, way))
		}
		for _, p := range plans {
			fused, err := p.InOrder()
			if err != nil {
				t.Errorf("%d ranks: %v", size, err)
				continue
			}
			for lane := range p.Lanes {
				for track := range p.Lanes[lane].Tracks {
					if got, want := len(fused[lane][track]), len(p.Fuse(lane, track)); got != want {
						t.Errorf("plan %s: %d steps in order, %d otherwise", p.Name, got, want)
					}
				}
			}
		}
	}
	p, err := Leaders(AllReduce, [][]int{{0, 2}, {1}}, Everybody)
	if err == nil {
		_, err = p.InOrder()
	}
	if wrong, ok := errors.AsType[*VerifyError](err); !ok || wrong.Reason != Unstable {
		t.Errorf("x0 + x2 + x1 passes for the order of the ranks: %v", err)
	}
}
