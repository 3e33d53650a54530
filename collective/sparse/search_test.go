package sparse

import (
	"fmt"
	"math"
	"testing"

	"github.com/treerun/treerun/collective"
)

// A tensor of several pieces is searched while its first blocks are sent: results and counts are the same, whatever the
// contents of the blocks outside the union, also in late pieces.
func TestSearchInPieces(t *testing.T) {
	const elements, size, late = 5*pieceBytes/4 + 1000, 64, 4 * pieceBytes / 4 // of 4 bytes each
	hosts := []int{0, 0, 1, 1, 2}
	has := func(rank, b int) bool { return b%97 == 7*rank || b%1000 == 999 || rank == 3 && b == 0 }
	negative := float32(math.Copysign(0, -1))
	mustRun(t, hosts, func(w *world, c *collective.Comm) error {
		for i, dirty := range []float32{0, 99} {
			send, recv, want := make([]float32, elements), make([]float32, elements), make([]float32, elements)
			own, union := 0, 0
			for b := range (elements + size - 1) / size {
				sum, found := float32(0), false
				for q := range hosts {
					if has(q, b) {
						sum, found = sum+float32(q+1), true
					}
				}
				for k := b * size; k < min((b+1)*size, elements); k++ {
					want[k], recv[k] = sum, dirty
					if has(w.Rank(), b) {
						send[k] = float32(w.Rank() + 1)
					}
				}
				if found {
					union++
				}
				if has(w.Rank(), b) {
					own++
				}
			}
			if send[late+70] == 0 {
				send[late+70] = negative // -0 counts as +0
			}
			for _, inPlace := range []bool{false, true} {
				if inPlace {
					recv = send
				}
				st, err := AllReduce(t.Context(), c, send, recv, collective.Sum, Use(Trees), BlockSize(size))
				if err != nil {
					return err
				}
				if st.NonZero != own || st.Union != union || st.Finding <= 0 {
					return fmt.Errorf("call %d: %d blocks of %d, union %d of %d, %+v", i, st.NonZero, own, st.Union, union, st)
				}
				for k := range want {
					if math.Float32bits(recv[k]) != math.Float32bits(want[k]) {
						return fmt.Errorf("call %d, in place %v: element %d is %v, want %v", i, inPlace, k, recv[k], want[k])
					}
				}
			}
		}
		return nil
	})
}
