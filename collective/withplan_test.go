package collective

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// WithPlan is compared between ranks, and checked.
func TestWithPlan(t *testing.T) {
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.Barrier, plan.AllToAll} {
		for _, name := range PlanNames(kind, 3) {
			mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
				if got, us := c.Choice(kind, 4096); got != name || !(us > 0) {
					t.Errorf("%s: %s takes %s, %v us", name, kind, got, us)
				}
				return Barrier(t.Context(), c)
			}, WithPlan(name), WithGraph(topo.UniformGraph(3)))
		}
	}
	if got := PlanNames(plan.AllReduce, directRanks+1); !slices.Equal(got, []string{"tree", "trees"}) {
		t.Errorf("many ranks have %v", got)
	}
	for want, opts := range map[string][]Option{
		`WithPlan("ring"): want one of ["flat" "tree"`: {WithPlan("ring"), WithPlan("ring")},
		"plans=tree ": {WithPlan("tree"), WithPlan("flat")},
	} {
		errs := newFakeJob(2).run(t, func(w *fakeWorld) error {
			_, err := New(t.Context(), w, overMem, WithTopoCache(""), opts[w.Rank()])
			return err
		})
		for r, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v, want %q", r, err, want)
			}
		}
	}
	errs := newFakeJob(directRanks+1).run(t, func(w *fakeWorld) error {
		_, err := New(t.Context(), w, overMem, WithTopoCache(""), WithPlan("direct"))
		return err
	})
	if !errors.Is(errs[0], ErrArgument) || !strings.Contains(errs[0].Error(), "up to 16 ranks, not for 17") {
		t.Errorf("too many ranks: %v", errs[0])
	}
}
