package sparse

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/transport"
)

// plan returns the plan of the Trees form over the links of a layout.
func (s *state) plan(layout *transport.Layout) *Plan {
	p := &Plan{Size: layout.Size, Shares: s.trees.shares, Slots: layout.Slots}
	for i, t := range s.trees.trees {
		for v, u := range t.Parent {
			if u >= 0 {
				p.Links = append(p.Links, Link{2 * i, v, u}, Link{2*i + 1, u, v})
			}
		}
		p.Trees = append(p.Trees, Tree{Parent: t.Parent, Up: 2 * i, Down: 2*i + 1})
	}
	return p
}

// Equal trees become one, with both shares; and the trees of ranks on one host and on several give correct plans.
func TestPlansOfCommunicators(t *testing.T) {
	for _, hosts := range [][]int{oneHost(2), oneHost(7), {0, 1}, {0, 0, 0, 1, 1}, {0, 1, 0, 2, 1, 3, 3}} {
		mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
			a := comm.Of(c)
			trees := len(a.Trees)
			a.Trees = append(slices.Clone(a.Trees), a.Trees[0])
			a.Shares = append(slices.Clone(a.Shares), 0.5)
			s := stateOf(a)
			if len(s.trees.trees) != trees || math.Abs(s.trees.shares[0]-a.Shares[0]-0.5) > 1e-9 {
				return fmt.Errorf("%d trees became %d, with shares %v of %v", len(a.Trees), len(s.trees.trees), s.trees.shares,
					a.Shares)
			}
			layout := s.layoutOf(&s.trees, minSlot)
			if err := Verify(s.plan(&layout)); err != nil {
				return err
			}
			x := slices.Repeat([]int32{1}, 5000)
			if _, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(Trees), BlockSize(10)); err != nil {
				return err
			}
			if i := slices.IndexFunc(x, func(v int32) bool { return v != int32(len(hosts)) }); i >= 0 {
				return fmt.Errorf("element %d is %d", i, x[i])
			}
			return nil
		})
	}
}
