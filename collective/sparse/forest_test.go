package sparse

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse/forest"
	"github.com/treerun/treerun/internal/comm"
	"github.com/treerun/treerun/topo"
)

// Trees that cannot be a plan are refused, on all ranks and with what is wrong, before
// anything runs along them.
func TestWrongTrees(t *testing.T) {
	for name, wrong := range map[string]struct {
		change func(trees []topo.Tree, shares []float64)
		want   string
	}{
		"circle": {func(trees []topo.Tree, _ []float64) { trees[1].Parent[3], trees[1].Parent[2] = 2, 3 },
			"tree 1: rank 2: not a tree: its blocks do not come to root 1"},
		"two roots": {func(trees []topo.Tree, _ []float64) { trees[2].Parent[0] = -1 },
			"tree 2: rank 2: not a tree: a second root besides rank 0"},
		"share": {func(_ []topo.Tree, shares []float64) { shares[0] = math.NaN() },
			"wrong deal: block: tree 0 has share NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := runRanks(t, oneHost(4), func(_ *world, c *collective.Comm) error {
				a := comm.Of(c)
				a.Trees, a.Shares = slices.Clone(a.Trees), slices.Clone(a.Shares)
				for i := range a.Trees {
					a.Trees[i].Parent = slices.Clone(a.Trees[i].Parent)
				}
				wrong.change(a.Trees, a.Shares)
				x := make([]float32, 100)
				_, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(Trees))
				return err
			})
			for r, err := range errs {
				var re *collective.RankError
				if !errors.As(err, &re) || !errors.Is(err, collective.ErrLink) || !strings.Contains(err.Error(), wrong.want) {
					t.Errorf("rank %d: %v, want %q", r, err, wrong.want)
				}
			}
		})
	}
}

// Trees that are the same become one, with both shares; and the trees of ranks on one
// host and on several are plans that are right.
func TestPlansOfCommunicators(t *testing.T) {
	for _, hosts := range [][]int{oneHost(2), oneHost(7), {0, 1}, {0, 0, 0, 1, 1}, {0, 1, 0, 2, 1, 3, 3}} {
		mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
			a := comm.Of(c)
			trees := len(a.Trees)
			a.Trees = append(slices.Clone(a.Trees), a.Trees[0])
			a.Shares = append(slices.Clone(a.Shares), 0.5)
			s := stateOf(a)
			if len(s.trees) != trees || math.Abs(s.shares[0]-a.Shares[0]-0.5) > 1e-9 {
				return fmt.Errorf("%d trees became %d, with shares %v of %v", len(a.Trees), len(s.trees), s.shares, a.Shares)
			}
			layout := s.lanes.Layout(c.Size(), linkSlots, leastSlot)
			if err := forest.Verify(s.plan(&layout)); err != nil {
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
