package kernels_test

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// compaction is one of n elements of a type: bitmaps, the words before and both arrays are in one memory, at places.
type compaction struct {
	kernels.Compaction
	own, any, before, whole, packed int
	room, size                      int
}

func newCompaction(r *rand.Rand, d kernel.DType, n, block int) (c compaction) {
	c.size, c.Elements, c.Block = d.Size(), int64(n), int64(block)
	words := (int(kernels.BitmapBytes(int64(n), int64(block))) + 63) / 16 * 16
	p := places(r, 2, n*c.size, c.size)
	c.any, c.before, c.whole, c.packed = words, 2*words, 3*words+p[0], 3*words+p[1]
	c.room = 3*words + room(2, n*c.size)
	return c
}

// fill draws bitmaps. Bits beyond the blocks are anything.
func (c *compaction) fill(r *rand.Rand, b []byte) {
	count := uint32(0)
	for i := range c.before - c.any {
		b[c.any+i] = byte(r.Uint32() & r.Uint32())
		b[c.own+i] = b[c.any+i] & byte(r.Uint32()|r.Uint32())
		if i%4 == 0 {
			binary.LittleEndian.PutUint32(b[c.before+i:], count)
		}
		count += uint32(bits.OnesCount8(b[c.any+i]))
	}
}

// do is Compact, or Expand, by their definitions.
func (c *compaction) do(b []byte, back bool) {
	at := c.packed
	for i := range int(c.Elements) {
		block := i / int(c.Block)
		whole := b[c.whole+i*c.size:][:c.size]
		has := func(bitmap int) bool { return b[bitmap+block/8]>>(block%8)&1 != 0 }
		switch {
		case back && has(c.any):
			copy(whole, b[at:])
		case back:
			clear(whole)
		case has(c.own):
			copy(b[at:], whole)
		case has(c.any):
			clear(b[at:][:c.size])
		}
		if has(c.any) {
			at += c.size
		}
	}
}
