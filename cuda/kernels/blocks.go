package kernels

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// NonZero finds the blocks that hold an element other than zero, where a block is as many
// elements, and the last one may be shorter. It sets bit i%32 of the 32-bit word i/32 at
// bitmap for such a block i, and clears those of the others. A floating-point number is zero
// if all its bits but the sign are. bitmap has BitmapBytes(n, block) bytes.
func (s *Set) NonZero(stream *cuda.Stream, d kernel.DType, bitmap, src cuda.Addr, n, block int64) error {
	if err := checkBlocks("search", d, n, block, bitmap, src); err != nil || n == 0 {
		return err
	}
	if err := stream.Memset(bitmap, 0, BitmapBytes(n, block)); err != nil {
		return err
	}
	mask := ^uint64(0) >> (64 - 8*d.Size())
	if d.Float() {
		mask >>= 1 // the sign does not count
	}
	const add, limit = 0, 0 // the kernel sets the bit where an element has (x&mask)+add > limit
	return s.start(stream, s.search[d.Size()], n*int64(d.Size()), Own, words(uint64(bitmap), uint64(src), uint64(n),
		uint64(block), mask, add, limit))
}

// CopyBlocks copies the blocks of src whose bits are set in bitmap, which is as
// NonZero makes it, to the same places in dst. The other blocks of dst become
// zero if zero is set; if not, they stay as they are. dst may be src; else they do not
// overlap.
func (s *Set) CopyBlocks(stream *cuda.Stream, d kernel.DType, dst, src, bitmap cuda.Addr, n, block int64,
	zero bool) error {
	if err := checkBlocks("copy of blocks", d, n, block, bitmap, dst, src); err != nil || n == 0 {
		return err
	}
	rest := uint64(0)
	if zero {
		rest = 1
	}
	return s.start(stream, s.pick[d.Size()], n*int64(d.Size()), Own, words(uint64(bitmap), uint64(dst), uint64(src),
		uint64(n), uint64(block), rest))
}

// Compaction is memory for the blocks of an array Whole whose bits are set in Any: Packed has them one behind the
// other. Before is 32-bit words: the number of bits that are set before each 32-bit word of Any.
type Compaction struct {
	Whole, Packed    cuda.Addr
	Own, Any, Before cuda.Addr
	Elements, Block  int64 // of Whole, of a block
}

// Compact copies the blocks from Whole to Packed. Those whose bits are not set in Own become zero there.
func (s *Set) Compact(stream *cuda.Stream, d kernel.DType, c Compaction) error {
	return s.compaction(stream, d, c, 0)
}

// Expand copies the blocks from Packed to Whole, of which all others become zero.
func (s *Set) Expand(stream *cuda.Stream, d kernel.DType, c Compaction) error {
	return s.compaction(stream, d, c, 1)
}

func (s *Set) compaction(stream *cuda.Stream, d kernel.DType, c Compaction, back uint64) error {
	err := checkBlocks("compaction", d, c.Elements, c.Block, c.Any, c.Whole, c.Packed)
	err = cmp.Or(err, check("bitmap", kernel.Uint32, c.Elements, []cuda.Addr{c.Own, c.Before}))
	if err != nil || c.Elements == 0 {
		return err
	}
	return s.start(stream, s.compact[d.Size()], c.Elements*int64(d.Size()), Own, words(uint64(c.Own),
		uint64(c.Any), uint64(c.Before), uint64(c.Whole), uint64(c.Packed), uint64(c.Elements), uint64(c.Block), back))
}

func words(args ...uint64) (packed []byte) {
	for _, a := range args {
		packed = binary.LittleEndian.AppendUint64(packed, a)
	}
	return packed
}

// checkBlocks refuses arrays that cannot have n elements in such blocks.
func checkBlocks(what string, d kernel.DType, n, block int64, bitmap cuda.Addr, list ...cuda.Addr) error {
	if !d.Valid() || d.Complex() || block < 1 {
		return fmt.Errorf("kernels: %s in blocks of %d elements of %v: %w", what, block, d, ErrArgument)
	}
	return cmp.Or(check(what, d, n, list), check("bitmap", kernel.Uint32, n, []cuda.Addr{bitmap}))
}

// BitmapBytes returns the size of the bitmap of n elements in blocks of that
// many: a whole number of 32-bit words.
func BitmapBytes(n, block int64) int64 {
	if n <= 0 || block <= 0 {
		return 0
	}
	return ((n-1)/block/32 + 1) * 4
}
