package kernels

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// BlocksAbove finds the blocks that hold an element further from zero than threshold,
// which is at least 0, or a NaN, where a block is as many elements, and the last one
// may be shorter. It sets bit i%32 of the 32-bit word i/32 at bitmap for such a block
// i, and clears those of the others. A floating-point number is zero if all its bits
// but the sign are. bitmap has BitmapBytes(n, block) bytes.
func (s *Set) BlocksAbove(stream *cuda.Stream, d kernel.DType, bitmap, src cuda.Addr, n, block int64,
	threshold float64) error {
	if !d.Valid() || block < 1 || !(threshold >= 0) || math.IsInf(threshold, 0) {
		return fmt.Errorf("kernels: blocks of %d elements of %v above %v: %w", block, d, threshold, ErrArgument)
	}
	if err := check("search", d, n, src); err != nil || n == 0 {
		return err
	}
	if err := check("bitmap", kernel.Uint32, n, bitmap); err != nil {
		return err
	}
	if err := stream.Memset(bitmap, 0, BitmapBytes(n, block)); err != nil {
		return err
	}
	mask, add, limit := above(d, threshold)
	return s.launch(stream, s.search[d.Size()], n*int64(d.Size()), uint64(bitmap), uint64(src), uint64(n), uint64(block),
		mask, add, limit)
}

// CopyBlocks copies the blocks of src whose bits are set in bitmap, which is as
// BlocksAbove makes it, to the same places in dst. The other blocks of dst become
// zero if zero is set; if not, they stay as they are. dst may be src; else they do not
// overlap.
func (s *Set) CopyBlocks(stream *cuda.Stream, d kernel.DType, dst, src, bitmap cuda.Addr, n, block int64,
	zero bool) error {
	if !d.Valid() || block < 1 {
		return fmt.Errorf("kernels: copy blocks of %d elements of %v: %w", block, d, ErrArgument)
	}
	if err := check("copy of blocks", d, n, dst, src); err != nil || n == 0 {
		return err
	}
	if err := check("bitmap", kernel.Uint32, n, bitmap); err != nil {
		return err
	}
	rest := uint64(0)
	if zero {
		rest = 1
	}
	return s.launch(stream, s.pick[d.Size()], n*int64(d.Size()), uint64(bitmap), uint64(dst), uint64(src), uint64(n),
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
// a NaN: (x&mask)+add > limit, all as wide as an element. Without their signs the bits
// of floating-point numbers rise with the numbers, and NaNs come last; signed integers
// from -last to last, which do not count, are moved to those from 0 to twice last.
func above(d kernel.DType, t float64) (mask, add, limit uint64) {
	all := ^uint64(0) >> (64 - 8*d.Size())
	if d.Float() {
		return all &^ dtypes[d].sign, 0, kernel.LimitBits(d, t)
	}
	last := ^uint64(0)
	if t < 1<<64 {
		last = uint64(t)
	}
	signed := d == kernel.Int8 || d == kernel.Int32 || d == kernel.Int64
	switch {
	case !signed:
		return all, 0, min(last, all)
	case last > all/2:
		return all, 0, all // not even the least of them counts
	}
	return all, last, 2 * last
}
