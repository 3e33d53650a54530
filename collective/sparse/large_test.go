package sparse

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/comm"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/internal/kernel"
)

// wantTooLarge checks the error of a call whose tensor the form cannot do.
func wantTooLarge(err error, rank int, want string) error {
	if !errors.Is(err, collective.ErrArgument) || !strings.Contains(err.Error(), fmt.Sprintf("on rank %d: ", rank)) ||
		!strings.Contains(err.Error(), want) {
		return fmt.Errorf("%v, want an ErrArgument of rank %d with %q", err, rank, want)
	}
	return nil
}

// A tensor of more elements than aggregators have offsets for is an ErrArgument on all
// ranks where this form was asked for, before anybody looks at the tensor. The
// communicator goes on.
func TestTooLargeForAggregators(t *testing.T) {
	const elements = 1 << 32
	x := untouchable[collective.Float16](t, elements)
	check := func(c *collective.Comm) error {
		_, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(Aggregators))
		if err := wantTooLarge(err, c.Rank(), "4294967296 elements"); err != nil {
			return err
		}
		// Rows of all ranks, of which none has as many.
		const rows, width = 1 << 12, maxBlockBytes / 2
		p := Pairs[collective.Float16]{Width: width, Values: x[:rows*width]}
		for i := range rows {
			p.Indices = append(p.Indices, uint32(i*c.Size()+c.Rank()))
		}
		_, _, err = AllReducePairs(t.Context(), c, p, Use(Aggregators))
		if err := wantTooLarge(err, c.Rank(), "4294967296 elements"); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
		return typed(t, 0, c, patterns[8], Aggregators, collective.Sum, 5000, 256, true)
	}
	mustRun(t, oneHost(2), func(_ *world, c *collective.Comm) error { return check(c) })
}

// By price such a tensor runs in another form, however good this one looks.
func TestTooLargeIsNoChoice(t *testing.T) {
	for elements, can := range map[int]bool{1 << 31: true, 1<<32 - 1<<20: true, 1 << 32: false, 1 << 34: false} {
		s := &state{c: &comm.Inside{Comm: &comm.Comm{Setup: &setup.Setup{Size: 2}}, Hosts: []int{0, 1}}, aggs: []int{0, 1},
			prices: make(map[int]float64)}
		s.priceDense = func(bytes int) float64 { return float64(bytes) / 1e3 }
		r := newReduction(allReduce, newConfig(nil), kernel.Float32, collective.Sum, elements)
		r.state = s
		e := estimate{mean: 0.01, most: 0.01, union: 0.01, host: 0.01}
		r.predict(&e, false)
		e.us[Trees] *= 1000
		e.choose(Dense, Trees, Aggregators)
		if chosen := e.form == Aggregators; chosen != can {
			t.Errorf("%d elements run as %v: %v", elements, e.form, e.us)
		}
		if s := r.minShape(); can {
			s.Columns = s.MostColumns()
			if err := s.Validate(); err != nil {
				t.Errorf("%d elements, %d columns: %v", elements, s.Columns, err)
			}
		}
	}
}

// Rows of which a tensor cannot be made are refused, as AllReduce refuses such tensors.
func TestTooManyRows(t *testing.T) {
	for _, c := range []struct {
		width, rows int
		ok          bool
	}{
		{1, math.MaxUint32, true},
		{64, block.MaxBlocks, true},
		{64, block.MaxBlocks + 1, false},
		{300, math.MaxUint32, false},
		{maxBlockBytes / 4, 1 << 20, true},
	} {
		p := pairs[float32]{own: Pairs[float32]{Width: c.width},
			reduction: reduction{cfg: newConfig(nil), call: call{DType: kernel.Float32}}}
		p.cfg.block = c.width
		if err := p.gridOf(c.rows).Validate(); (err == nil) != c.ok {
			t.Errorf("%d rows of %d: %v", c.rows, c.width, err)
		}
	}
}
