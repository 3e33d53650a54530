package sparsetest

import (
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// The sets of the cases are what the kernel finds, so that a case of odd numbers
// tests what it says.
func TestSetsAreWhatTheKernelFinds(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		for _, c := range append(Cases(ranks, 4, 40), TwoOnOneSlot(ranks)...) {
			for v := range c.Ranks() {
				bits := make([]uint64, len(c.Sets[v]))
				kernel.NonZero(c.DType, c.Send[v], c.Grid.Size, bits)
				for b := range c.Grid.Blocks() {
					if found := bits[b/64]>>(b%64)&1 != 0; found != c.Sets[v].Has(b) {
						t.Errorf("%s, rank %d, block %d: the kernel finds %v", c.Name, v, b, found)
					}
				}
			}
		}
	}
}

func TestLimit(t *testing.T) {
	g := block.Grid{Elements: 39, Size: 4, Width: 4} // the last of 10 blocks has 12 bytes
	a, b, c := block.NewSet(10), block.NewSet(10), block.NewSet(10)
	for i := range 3 {
		a.Add(i)
	}
	b.Add(2)
	b.Add(9)
	// 0 and 1 only a has, 2 a and b, 9 only b; c has nothing.
	want := Limit{Rank: 3*16 + 12, Together: 2*2*16 + 3*16 + 2*12}
	if got := LimitOf(g, []block.Set{a, b, c}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	full := block.NewSet(10)
	for i := range 10 {
		full.Add(i)
	}
	if got := LimitOf(g, []block.Set{full, full, full, full}); got.Rank != g.Bytes() || got.Together != 2*3*g.Bytes() {
		t.Errorf("dense: %+v", got)
	}
	if got := LimitOf(g, []block.Set{c, c}); got != (Limit{}) {
		t.Errorf("zero: %+v", got)
	}
	if got := LimitOf(g, []block.Set{full}); got != (Limit{}) {
		t.Errorf("one rank: %+v", got)
	}
}
