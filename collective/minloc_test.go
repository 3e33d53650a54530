package collective

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// minLoc tries one table: the values of the ranks, and the results expected.
func minLoc[T Number](t *testing.T, name string, in []T, least T, at int, greatest T, highest int) {
	t.Helper()
	mustRun(t, len(in), func(_ *fakeWorld, c *Comm) error {
		lo, i, err := AllReduceMinLoc(t.Context(), c, in[c.Rank()])
		hi, j, err2 := AllReduceMaxLoc(t.Context(), c, in[c.Rank()])
		if err = errors.Join(err, err2); err != nil {
			return err
		}
		if elementOf(lo) != elementOf(least) || i != at || elementOf(hi) != elementOf(greatest) || j != highest {
			return fmt.Errorf("%s: least %v on %d, greatest %v on %d; want %v on %d, %v on %d", name, lo, i, hi, j, least, at,
				greatest, highest)
		}
		return nil
	})
}

// TestMinLoc: the value has the bits of Min or Max, and the rank is the lowest one that has it.
func TestMinLoc(t *testing.T) {
	zero, nan := 0.0, math.Float64frombits(0x7ff8000000000000)
	minLoc(t, "one rank", []int{7}, 7, 0, 7, 0)
	minLoc(t, "ties", []int16{3, -3, 3, -3}, -3, 1, 3, 0)
	minLoc(t, "unsigned", []uint16{1, 40000, 65535}, 1, 0, 65535, 2)
	minLoc(t, "zeros", []float64{zero, zero, math.Copysign(0, -1)}, math.Copysign(0, -1), 2, zero, 0)
	minLoc(t, "NaN", []float64{1, math.Float64frombits(0xfff8000000000123), math.NaN(), math.Inf(-1)}, nan, 1, nan, 1)
	minLoc(t, "NaN first", []float64{math.Float64frombits(0xfff8000000000123), 1}, nan, 0, nan, 0)
	minLoc(t, "halves", []Float16{0x3c00, 0xbc00, 0x7c00}, 0xbc00, 1, 0x7c00, 2) // 1, -1, +Inf
}

// TestMinLocMismatch: a rank that makes another call is detected.
func TestMinLocMismatch(t *testing.T) {
	for name, odd := range map[string]func(c *Comm) error{
		"max":    func(c *Comm) error { _, _, err := AllReduceMaxLoc(t.Context(), c, 1.0); return err },
		"type":   func(c *Comm) error { _, _, err := AllReduceMinLoc(t.Context(), c, 1); return err },
		"gather": func(c *Comm) error { return AllGather(t.Context(), c, make([]float64, 1), make([]float64, 3)) },
	} {
		for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 1 {
				return odd(c)
			}
			_, _, err := AllReduceMinLoc(t.Context(), c, 1.0)
			return err
		}) {
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "AllReduceMinLoc #1") {
				t.Errorf("%s, rank %d: %v", name, r, err)
			}
		}
	}
}
