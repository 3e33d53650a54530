//go:build linux

package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective"
)

// Every rank has the number of blocks and the overlap that the options demand.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		density float64
		overlap string
		least   float64 // of the union
		most    float64
	}{
		{0, "full", 0, 0}, {1, "full", 1, 1}, {0.25, "full", 0.25, 0.25}, {0.1, "none", 0.4, 0.4}, {0.5, "none", 1, 1},
		{0.1, "random", 0.3, 0.39}, {0.5, "random", 0.9, 0.97},
	} {
		k := Case{Collective: find("sparse-allreduce"), Count: 256 * 1000, Density: c.density, Overlap: c.overlap}
		s := newSpread(&k, parsed(t, "--collective sparse-allreduce"), 4)
		for q, has := range s.blocks {
			if n := len(slices.DeleteFunc(slices.Clone(has), func(yes bool) bool { return !yes })); n != s.nonZero {
				t.Errorf("density %g, overlap %s: %d blocks of rank %d, want %d", c.density, c.overlap, n, q, s.nonZero)
			}
		}
		union := 0
		for _, yes := range s.union {
			if yes {
				union++
			}
		}
		if n := s.nonZero; n != int(math.Round(c.density*1000)) || float64(union) < c.least*1000-0.5 ||
			float64(union) > c.most*1000+0.5 {
			t.Errorf("density %g, overlap %s: %d blocks of 1000, %d in the union", c.density, c.overlap, n, union)
		}
	}
}

// Blocks of which a part is not zero have that part, and the results are right.
func TestSparseFill(t *testing.T) {
	for _, text := range []string{"trees", "aggregators", "dense"} {
		o := parsed(t, "--collective sparse-allreduce -b 100K -e 100K --density .5 --fill .02 "+
			"--overlap full,random -d float32,int64 -i 2 -w 1 --form "+text)
		onRanks(t, 3, func(c *collective.Comm) error {
			return measureAll(t.Context(), c, c, nil, o, func(r *Row) error {
				if *r.Wrong != 0 || r.Sparse.Fill != .02 {
					return fmt.Errorf("row %+v, sparse %+v", *r, r.Sparse)
				}
				return nil
			})
		})
	}
	s := &spread{fill: .02}
	alike, n := 0, [2]int{}
	for i := range 100_000 {
		a, b := s.isNonZero(0, i), s.isNonZero(1, i)
		if a {
			n[0]++
		}
		if b {
			n[1]++
		}
		if a && b {
			alike++
		}
	}
	if min(n[0], n[1]) < 1900 || max(n[0], n[1]) > 2100 || alike > 100 {
		t.Errorf("%d and %d of 100000 elements are drawn, %d of them in common", n[0], n[1], alike)
	}
}

// Sparse rows are right, and a wrong element is counted, in a block that some rank has and in one that no rank has.
func TestSparseRows(t *testing.T) {
	o := parsed(t, "--collective sparse-allreduce -b 100K -e 100K --density 0,.02,.3,1 --overlap all -d "+
		"float32,bfloat16,int64 -o sum,min -i 2 -w 1")
	onRanks(t, 3, func(c *collective.Comm) error {
		return measureAll(t.Context(), c, c, nil, o, func(r *Row) error {
			if r.Wrong == nil || *r.Wrong != 0 || r.Sparse == nil || r.Plan != r.Sparse.Form {
				return fmt.Errorf("row %+v, sparse %+v", *r, r.Sparse)
			}
			return nil
		})
	})
	for _, at := range []int{0, 300, 25599} {
		onRanks(t, 2, func(c *collective.Comm) error {
			o := parsed(t, "--collective sparse-allreduce -b 100K -e 100K --density .5 --overlap full --in-place=no")
			cases := o.cases(2)
			m, err := newMeter[float32](newSession(c, c, o, nil), cases)
			if err != nil {
				return err
			}
			m.calls["sparse-allreduce"] = collectiveFuncs[float32]{run: func(ctx context.Context, k *call[float32]) error {
				err := sparseCalls[float32]().run(ctx, k)
				k.recv[at]++
				return err
			}}
			r, err := m.measure(t.Context(), &cases[0])
			if err == nil && *r.Wrong != 2 {
				err = fmt.Errorf("element %d: %d wrong elements were seen, want one per rank", at, *r.Wrong)
			}
			return err
		})
	}
}
