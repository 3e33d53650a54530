package kernels

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/cuda"
)

// NonZeroBlocks finds the blocks that hold an element other than zero, where a
// block is as many elements, and the last one may be shorter. It sets bit i%32 of
// the 32-bit word i/32 at bitmap for such a block i, and clears those of the
// others. A floating-point number is zero if all its bits but the sign are.
// bitmap has BitmapBytes(n, block) bytes.
func (s *Set) NonZeroBlocks(stream *cuda.Stream, d DType, bitmap, src cuda.Addr, n, block int64) error {
	return s.BlocksAbove(stream, d, bitmap, src, n, block, 0)
}

// BlocksAbove is NonZeroBlocks for blocks that hold an element further from zero
// than threshold, or a NaN. threshold is at least 0.
func (s *Set) BlocksAbove(stream *cuda.Stream, d DType, bitmap, src cuda.Addr, n, block int64,
	threshold float64) error {
	if !d.Valid() || block < 1 || !(threshold >= 0) || math.IsInf(threshold, 0) {
		return fmt.Errorf("kernels: blocks of %d elements of %v above %v: %w", block, d, threshold, ErrArgument)
	}
	if err := check("search", d, n, src); err != nil || n == 0 {
		return err
	}
	if err := check("bitmap", Uint32, n, bitmap); err != nil {
		return err
	}
	if err := stream.Memset(bitmap, 0, BitmapBytes(n, block)); err != nil {
		return err
	}
	mask, add, limit := above(d, threshold)
	return s.launch(stream, s.search[d.Size()], n*dtypes[d].size, uint64(bitmap), uint64(src), uint64(n), uint64(block),
		mask, add, limit)
}

// CopyBlocks copies the blocks of src whose bits are set in bitmap, which is as
// NonZeroBlocks makes it, to the same places in dst. The other blocks of dst become
// zero if zero is set; if not, they stay as they are. dst may be src; else they do not
// overlap.
func (s *Set) CopyBlocks(stream *cuda.Stream, d DType, dst, src, bitmap cuda.Addr, n, block int64, zero bool) error {
	if !d.Valid() || block < 1 {
		return fmt.Errorf("kernels: copy blocks of %d elements of %v: %w", block, d, ErrArgument)
	}
	if err := check("copy of blocks", d, n, dst, src); err != nil || n == 0 {
		return err
	}
	if err := check("bitmap", Uint32, n, bitmap); err != nil {
		return err
	}
	rest := uint64(0)
	if zero {
		rest = 1
	}
	return s.launch(stream, s.pick[d.Size()], n*dtypes[d].size, uint64(bitmap), uint64(dst), uint64(src), uint64(n),
		uint64(block), rest)
}

// BitmapBytes returns the size of the bitmap of n elements in blocks of that
// many: a whole number of 32-bit words.
func BitmapBytes(n, block int64) int64 {
	if n <= 0 || block <= 0 {
		return 0
	}
	return ((n-1)/block/32 + 1) * 4
}

// above returns how bits x of an element tell that it is further from zero than t, or
// a NaN: (x&mask)+add > limit, all as wide as an element. last is the number furthest
// from zero that does not count. Without their signs the bits of floating-point
// numbers rise with the numbers, and NaNs come last; signed integers from -last to
// last are moved to those from 0 to twice last.
func above(d DType, t float64) (mask, add, limit uint64) {
	all := ^uint64(0) >> (64 - 8*d.Size())
	most := magnitudes(d)
	last, end := uint64(0), most
	for last < end { // last does not count, and all beyond end do
		if m := end - (end-last)/2; within(d, m, t) {
			last = m
		} else {
			end = m - 1
		}
	}
	switch {
	case d >= Float16:
		return all &^ dtypes[d].sign, 0, last
	case d != Int8 && d != Int32 && d != Int64:
		return all, 0, last
	case within(d, most+1, t):
		return all, 0, all // not even the least of them counts
	}
	return all, last, 2 * last
}

// magnitudes returns the largest number of a type, as magnitude takes it. That of the
// least signed integer is one more.
func magnitudes(d DType) uint64 {
	switch d {
	case Float16:
		return 0x7BFF
	case BFloat16:
		return 0x7F7F
	case Float32:
		return uint64(math.Float32bits(math.MaxFloat32))
	case Float64:
		return math.Float64bits(math.MaxFloat64)
	case Int8, Int32, Int64:
		return 1<<(8*d.Size()-1) - 1
	}
	return ^uint64(0) >> (64 - 8*d.Size())
}

// within reports whether a number of a type that is not negative, an integer or the bits of
// a floating-point number, is t at most.
func within(d DType, bits uint64, t float64) bool {
	if d >= Float16 {
		return magnitude(d, bits) <= t
	}
	return t >= 1<<64 || bits <= uint64(t) // a float64 does not have all integers
}

// magnitude returns the value of the bits of a floating-point number that is not negative.
func magnitude(d DType, bits uint64) float64 {
	switch d {
	case Float16:
		exponent, fraction := int(bits>>10), float64(bits&1023)
		if exponent == 0 {
			return math.Ldexp(fraction, -24)
		}
		return math.Ldexp(1024+fraction, exponent-25)
	case BFloat16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	case Float32:
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}
