// These tests hold the kernels, run by a GPU, against those of the host: the same bits for every
// input. Where this host has no GPU, a fake one runs the same sources.

package kernels_test

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// special are numbers at which floating-point code goes wrong: zeros, infinities,
// NaN with and without payload, the least and largest normal and subnormal
// numbers. Those of float64 are made of those of float32.
var special = map[int][]uint64{
	2: {0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0xFD55, 1, 0x8001, 0x3FF, 0x83FF, 0x400, 0x8400, 0x7BFF, 0xFBFF,
		0x3C00, 0xBC00,
		0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0xFFAA, 0x7F7F, 0xFF7F, 0x3F80, 0xBF80, 0x7FFF, 0xFFFF},
	4: {0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFABCDEF, 1, 0x80000001, 0x7FFFFF,
		0x807FFFFF, 0x800000, 0x80800000,
		0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x7FFFFFFF, 0xFFFFFFFF},
	8: {0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8<<48 | 1, 0x7FF<<52 | 1, 0xFFF<<52 | 0xABCDEF, 1,
		1<<63 | 1, 1<<52 - 1,
		1<<63 | (1<<52 - 1), 1 << 52, 0x801 << 52, 0x7FF<<52 - 1, 0xFFF<<52 - 1, 0x3FF << 52, 0xBFF << 52, 1<<64 - 1},
}

// fill writes random elements to b, one of three a special one.
func fill(r *rand.Rand, d kernel.DType, b []byte) {
	size := d.Size()
	if d.Complex() {
		size /= 2 // of a part
	}
	list := special[size]
	for i := 0; i+size <= len(b); i += size {
		v := r.Uint64()
		if len(list) > 0 && r.IntN(3) == 0 {
			v = list[r.IntN(len(list))]
		}
		for k := range size {
			b[i+k] = byte(v >> (8 * k))
		}
	}
}

func everyOp(d kernel.DType) func(yield func(kernel.Op) bool) {
	return func(yield func(kernel.Op) bool) {
		for op := kernel.Sum; op <= kernel.Avg; op++ { // others are not for devices
			if op.Takes(d) && !yield(op) {
				return
			}
		}
	}
}

// realTypes yields the types whose blocks are searched for.
func realTypes(yield func(kernel.DType) bool) {
	for d := range kernel.DeviceDTypes {
		if !d.Complex() && !yield(d) {
			return
		}
	}
}

// lengths are numbers of elements: all small ones, and some that keep every
// thread of a block busy several times.
func lengths(yield func(int) bool) {
	for n := range 131 {
		if !yield(n) {
			return
		}
	}
	for _, n := range []int{1000, 4099, 16384} {
		if !yield(n) {
			return
		}
	}
}

// places draws the places of arrays of that many bytes within the room: each at some multiple of the element size, or
// all of them at multiples of 16, apart from each other.
func places(r *rand.Rand, number, bytes, size int) []int {
	all := make([]int, number)
	at := 0
	even := r.IntN(3) == 0
	for i := range all {
		at = (at + 15) / 16 * 16
		if !even {
			at += r.IntN(2*16/size) * size
		}
		all[i] = at
		at += bytes
	}
	r.Shuffle(number, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// room is enough for places.
func room(number, bytes int) int { return number * (bytes + 64) }

// divisors are numbers of ranks, and more than any type holds.
var divisors = []int64{1, 2, 3, 7, 127, 128, 255, 256, 65535, 65536, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<62 + 1}

// nonZero is the bitmap of NonZero, by its definition.
func nonZero(d kernel.DType, b []byte, block int) []byte {
	n := len(b) / d.Size()
	bitmap := make([]byte, kernels.BitmapBytes(int64(n), int64(block)))
	for i := range n {
		set := false
		for k, x := range b[i*d.Size():][:d.Size()] {
			if k == d.Size()-1 && d >= kernel.Float16 {
				x &= 0x7F // the sign
			}
			set = set || x != 0
		}
		if word := bitmap[i/block/32*4:]; set {
			binary.LittleEndian.PutUint32(word, binary.LittleEndian.Uint32(word)|1<<(i/block%32))
		}
	}
	return bitmap
}
