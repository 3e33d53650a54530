package planner

import (
	"fmt"
	"testing"
)

// Where every part has trees of its own, an AllGather and a ReduceScatter reach the rate that the links of a DGX-1V
// allow, 8/7 of the 150 GB/s of a GPU; the trees of an AllReduce reach two thirds. With a limit on the trees these are
// used, as the limit is theirs.
func TestPartsReachTheBound(t *testing.T) {
	for _, kind := range []string{"allgather", "reducescatter"} {
		p := readPlan(t, fmt.Sprintf("--graph dgx1v --collective %s --algorithm packing", kind))
		if want := 150 * 8 / 7.0; p.Bound < want*(1-1e-6) || p.Bound > want*(1+1e-6) || p.Rate < 0.95*want {
			t.Errorf("%s: rate %v of %v, want 0.95 of %v", kind, p.Rate, p.Bound, want)
		}
		for i, x := range p.Trees {
			if x.Part == nil {
				t.Errorf("%s: tree %d carries all parts", kind, i)
			}
		}
		few := readPlan(t, fmt.Sprintf("--graph dgx1v --collective %s --algorithm packing --max-trees 2", kind))
		if len(few.Trees) > 2 || few.Trees[0].Part != nil {
			t.Errorf("%s: %d trees with --max-trees 2", kind, len(few.Trees))
		}
	}
}
