package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
)

// NonZero finds the blocks of src that are not zero: of each of its blocks of
// size elements, the last of which may be shorter, it sets bit b%64 of
// bits[b/64] for block b if the block counts, and clears it if not.
//
// A block of floating-point numbers is zero if all its bits are, signs aside: one with a NaN, an infinity or a
// subnormal number counts, one of zeros of either sign does not. A block of integers is zero if all are 0. rest reports
// whether some block which does not count has -0 in it, so that putting +0 there would change bits.
//
// bits has exactly the words that the blocks need; bits beyond the last block become 0. src may begin at any address.
// Zero blocks are read at the speed of memory, of others no more than needed. NonZero does not allocate. Concurrent
// calls are safe if no goroutine writes the memory that they read.
func NonZero(dt DType, src []byte, size int, bits []uint64) (rest bool) {
	checkBlocks(dt, src, size, bits)
	clear(bits)
	mask := magnitude(dt)
	if best != levelGo && len(src) > 0 {
		return nonZeroNative(best, src, size*dt.Size(), mask, bits)
	}
	return nonZeroGo(src, size*dt.Size(), mask, bits)
}

func checkBlocks(dt DType, src []byte, size int, bits []uint64) {
	if !fits(dt, src) || size < 1 || size > math.MaxInt/8 {
		panic(fmt.Sprintf("kernel: blocks of %d among %d bytes of %v", size, len(src), dt))
	}
	blocks := (len(src)/dt.Size() + size - 1) / size
	if len(bits) != (blocks+63)/64 {
		panic(fmt.Sprintf("kernel: %d words for %d blocks", len(bits), blocks))
	}
}

// magnitude returns the bits of a type that make a number differ from zero, repeated over a word.
func magnitude(dt DType) uint64 {
	switch dt.part() {
	case Float16, BFloat16:
		return 0x7FFF7FFF7FFF7FFF
	case Float32:
		return 0x7FFFFFFF7FFFFFFF
	case Float64:
		return 1<<63 - 1
	}
	return math.MaxUint64
}

// nonZeroGo is NonZero in plain Go. bits are 0 before.
func nonZeroGo(src []byte, block int, mask uint64, bits []uint64) (rest bool) {
	others := uint64(0)
	for b := 0; len(src) > 0; b++ {
		n := min(block, len(src))
		if seen := joined(src[:n], mask); seen&mask != 0 {
			bits[b/64] |= 1 << (b % 64)
		} else {
			others |= seen
		}
		src = src[n:]
	}
	return others != 0
}

// joined returns the bits that any word of p has, or some of them as soon as one
// of mask is among them.
func joined(p []byte, mask uint64) (seen uint64) {
	for len(p) >= 64 && seen&mask == 0 {
		q := (*[64]byte)(p)
		seen |= binary.NativeEndian.Uint64(q[0:]) | binary.NativeEndian.Uint64(q[8:]) | binary.NativeEndian.Uint64(
			q[16:]) | binary.NativeEndian.Uint64(q[24:]) |
			binary.NativeEndian.Uint64(q[32:]) | binary.NativeEndian.Uint64(q[40:]) | binary.NativeEndian.Uint64(
			q[48:]) | binary.NativeEndian.Uint64(q[56:])
		p = p[64:]
	}
	if seen&mask != 0 {
		return seen
	}
	for len(p) >= 8 {
		seen |= binary.NativeEndian.Uint64(p)
		p = p[8:]
	}
	var last [8]byte
	copy(last[:], p)
	return seen | binary.NativeEndian.Uint64(last[:])
}
