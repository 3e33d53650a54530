//go:build cgo && linux

package kernels_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// The blocks of a bitmap are copied, the others become zero or stay, wherever the
// arrays begin.
func TestCopyBlocks(t *testing.T) {
	g := first(t)
	for d := range realTypes {
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

// Blocks go into a shorter array one behind the other, and back from there, wherever the arrays begin.
func TestCompact(t *testing.T) {
	g := first(t)
	for d := range realTypes {
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

// Invalid arguments are refused, and nothing is launched.
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
