package sparse

import (
	"encoding/binary"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// finder finds the blocks of a tensor that count.
type finder struct {
	dtype     kernel.DType
	threshold float64
}

// counts reports whether a block has to travel.
func (f *finder) counts(b []byte) bool {
	var set [1]uint64
	n := len(b) / f.dtype.Size()
	f.find(block.Grid{Elements: n, Size: n, Width: f.dtype.Size()}, b, set[:])
	return set[0] != 0
}

// find puts the blocks that count into set. It reports whether the others are not
// all +0 already: they hold -0, or what is below the threshold.
func (f *finder) find(g block.Grid, tensor []byte, set block.Set) (residue bool) {
	switch {
	case f.threshold == 0:
		return kernel.NonZero(f.dtype, tensor, g.Size, set)
	case f.dtype.Float():
		return kernel.Above(f.dtype, tensor, g.Size, f.threshold, set)
	}
	clear(set)
	for b := range g.Blocks() {
		if f.above(g.Of(tensor, b, 1)) {
			set.Add(b)
		}
	}
	return true
}

// above reports whether an integer is further from zero than the threshold, of which a float64
// does not have all.
func (f *finder) above(b []byte) bool {
	if f.threshold >= 1<<63 {
		return false
	}
	most := int64(f.threshold) // an integer is beyond it if it is beyond this
	for n := f.dtype.Size(); len(b) >= n; b = b[n:] {
		var v int64
		if n == 4 {
			v = int64(int32(binary.NativeEndian.Uint32(b)))
		} else {
			v = int64(binary.NativeEndian.Uint64(b))
		}
		if v > most || v < -most {
			return true
		}
	}
	return false
}
