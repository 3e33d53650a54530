//go:build cgo

package kernels_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// The blocks of a bitmap are copied, the others become zero or stay, wherever the
// arrays begin.
func TestCopyBlocks(t *testing.T) {
	g := first(t)
	for d := range kernel.DeviceDTypes {
		size := d.Size()
		r := rand.New(rand.NewPCG(uint64(d), 10))
		for n := range lengths {
			if n > 40 && n%9 > 0 {
				continue
			}
			for _, block := range []int{1, 3, 8, 33, 256, 1 << 20} {
				bitmap := (int(kernels.BitmapBytes(int64(n), int64(block))) + 63) / 16 * 16
				w := g.newTwin(t, r, d, bitmap+room(2, n*size))
				p, zero := places(r, 2, n*size, size), r.IntN(2) == 0
				for i := range w.host[:bitmap] {
					w.host[i] = byte(r.Uint32() & r.Uint32())
				}
				must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
				must(t, g.CopyBlocks(g.stream, d, w.at(bitmap+p[0]), w.at(bitmap+p[1]), w.at(0), int64(n),
					int64(block), zero))
				for i := range n {
					b, to := i/block, w.host[bitmap+p[0]+i*size:][:size]
					switch {
					case w.host[b/8]>>(b%8)&1 != 0:
						copy(to, w.host[bitmap+p[1]+i*size:])
					case zero:
						clear(to)
					}
				}
				g.compare(t, fmt.Sprintf("blocks of %d in %d %v, zero %v", block, n, d, zero), w)
				must(t, w.device.Free())
			}
		}
	}
}

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

// Blocks go into a shorter array one behind the other, and back from there, wherever the arrays begin.
func TestCompact(t *testing.T) {
	g := first(t)
	for d := range kernel.DeviceDTypes {
		r := rand.New(rand.NewPCG(uint64(d), 15))
		for n := range lengths {
			if n > 40 && n%9 > 0 {
				continue
			}
			for _, block := range []int{1, 3, 8, 33, 256, 1 << 20} {
				c := newCompaction(r, d, n, block)
				w := g.newTwin(t, r, d, c.room)
				c.fill(r, w.host)
				must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
				c.Own, c.Any, c.Before, c.Whole, c.Packed = w.at(c.own), w.at(c.any), w.at(c.before), w.at(c.whole),
					w.at(c.packed)
				must(t, g.Compact(g.stream, d, c.Compaction))
				c.do(w.host, false)
				g.compare(t, fmt.Sprintf("blocks of %d in %d %v", block, n, d), w)
				fill(r, d, w.host[c.packed:][:n*c.size])
				must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
				must(t, g.Expand(g.stream, d, c.Compaction))
				c.do(w.host, true)
				g.compare(t, fmt.Sprintf("blocks of %d in %d %v, back", block, n, d), w)
				must(t, w.device.Free())
			}
		}
	}
}

// What makes no sense is refused, and nothing is launched.
func TestBlockArguments(t *testing.T) {
	g := first(t)
	w := g.newTwin(t, rand.New(rand.NewPCG(1, 1)), kernel.Float32, 1024)
	a, odd := w.at(0), w.at(2)
	for what, err := range map[string]error{
		"no block":   g.CopyBlocks(g.stream, kernel.Float32, a, a+512, a+256, 4, 0, true),
		"type":       g.CopyBlocks(g.stream, 0, a, a+512, a+256, 4, 2, true),
		"odd source": g.CopyBlocks(g.stream, kernel.Float32, a, odd, a, 4, 2, true),
		"no bitmap":  g.CopyBlocks(g.stream, kernel.Float32, a, a+512, 0, 4, 2, true),
		"length":     g.CopyBlocks(g.stream, kernel.Float32, a, a+512, a, -1, 2, true),
		"no counts":  g.Compact(g.stream, kernel.Float32, kernels.Compaction{a, a + 512, a, a, 0, 4, 2}),
		"no memory":  g.Expand(g.stream, kernel.Float32, kernels.Compaction{a, 0, a, a, a, 4, 2}),
	} {
		if !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%s: error %v, want one that wraps ErrArgument", what, err)
		}
	}
	g.compare(t, "after refused calls", w)
}
