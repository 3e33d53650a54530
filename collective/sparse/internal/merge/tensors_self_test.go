package merge

import (
	"testing"

	"github.com/treerun/treerun/internal/kernel"
)

// The sets of the cases equal the sets that the kernel finds, so that a case of odd numbers tests what its name claims.
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
