package sparse

import (
	"encoding/binary"
	"math"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// finder finds the blocks of a tensor that count.
type finder struct {
	dtype     kernel.DType
	threshold float64
}

// signs has the bits of a word of elements that do not make them different from
// zero.
func (f *finder) signs() uint64 {
	switch f.dtype {
	case kernel.Float16, kernel.BFloat16:
		return 0x8000800080008000
	case kernel.Float32:
		return 0x8000000080000000
	case kernel.Float64:
		return 1 << 63
	}
	return 0
}

// counts reports whether a block has to travel.
func (f *finder) counts(b []byte) bool {
	if f.threshold > 0 {
		return f.above(b)
	}
	mask := ^f.signs()
	for ; len(b) >= 8; b = b[8:] {
		if binary.NativeEndian.Uint64(b)&mask != 0 {
			return true
		}
	}
	var rest [8]byte
	copy(rest[:], b)
	return binary.NativeEndian.Uint64(rest[:])&mask != 0
}

// above reports whether an element is further from zero than the threshold, or a
// NaN.
func (f *finder) above(b []byte) bool {
	n := f.dtype.Size()
	if f.dtype == kernel.Int64 {
		return aboveInt64(b, f.threshold)
	}
	for ; len(b) >= n; b = b[n:] {
		var v float64
		switch f.dtype {
		case kernel.Int32:
			v = float64(int32(binary.NativeEndian.Uint32(b)))
		case kernel.Float32:
			v = float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
		case kernel.Float64:
			v = math.Float64frombits(binary.NativeEndian.Uint64(b))
		case kernel.BFloat16:
			v = float64(math.Float32frombits(uint32(binary.NativeEndian.Uint16(b)) << 16))
		default:
			v = half(binary.NativeEndian.Uint16(b))
		}
		if !(math.Abs(v) <= f.threshold) {
			return true
		}
	}
	return false
}

// aboveInt64 is above for int64, of which a float64 does not have all.
func aboveInt64(b []byte, threshold float64) bool {
	if threshold >= 1<<63 {
		return false
	}
	most := int64(threshold) // an integer is beyond it if it is beyond this
	for ; len(b) >= 8; b = b[8:] {
		if v := int64(binary.NativeEndian.Uint64(b)); v > most || v < -most {
			return true
		}
	}
	return false
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
		if f.counts(g.Of(tensor, b, 1)) {
			set.Add(b)
		}
	}
	return true
}

// half returns the value of a Float16, without its sign.
func half(h uint16) float64 {
	exponent, fraction := int(h>>10&31), float64(h&1023)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return math.Inf(1)
	case exponent == 0:
		return math.Ldexp(fraction, -24)
	}
	return math.Ldexp(1024+fraction, exponent-25)
}
