package kernels

import (
	"math"
	"math/big"
	"testing"

	"github.com/treerun/treerun/internal/kernel"
)

// What the search kernel is told of a threshold sorts integers as they are, which a float64
// cannot hold: around the threshold, around zero and at the ends of the type.
func TestAboveIntegers(t *testing.T) {
	for _, d := range []kernel.DType{kernel.Int8, kernel.Uint8, kernel.Int32, kernel.Uint32, kernel.Int64,
		kernel.Uint64} {
		width := 8 * uint(d.Size())
		all := ^uint64(0) >> (64 - width)
		signed := d == kernel.Int8 || d == kernel.Int32 || d == kernel.Int64
		for _, threshold := range []float64{0, 0.5, 1, 100.5, 127, 128, 1 << 31, 1 << 32, 1 << 53, 1 << 62,
			math.Nextafter(1<<63, 0), 1 << 63, math.Nextafter(1<<64, 0), 1 << 64, 1e300} {
			mask, add, limit := above(d, threshold)
			near := uint64(math.MaxUint64)
			if threshold < 1<<64 {
				near = uint64(threshold)
			}
			for _, middle := range []uint64{0, near, -near, all, all/2 + 1} {
				for off := range uint64(7) {
					x := (middle + off - 3) & all
					value := new(big.Float).SetUint64(x)
					if signed && x>>(width-1) != 0 {
						value.SetUint64(-(x | ^all))
					}
					got := (x&mask+add)&all > limit
					if want := value.Cmp(big.NewFloat(threshold)) > 0; got != want {
						t.Fatalf("%v %#x beyond %v: %v", d, x, threshold, got)
					}
				}
			}
		}
	}
}
