package sparse

import (
	"encoding/binary"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// sampled is the number of blocks that the ranks examine before they choose a form.
const sampled = 1024

// sample contains a bit for each of the sampled blocks, set if the block is not zero.
type sample [sampled / 64]uint64

func (s *sample) set() block.Set { return s[:] }

// sampleAt returns the i-th sampled block of the given number of blocks: one of every stretch of the same length, at a
// position that follows no pattern in the data.
func sampleAt(i, blocks int) int {
	if blocks <= sampled {
		return i
	}
	lo, hi := i*blocks/sampled, (i+1)*blocks/sampled
	x := uint64(i+1) * 0x9E3779B97F4A7C15
	x ^= x >> 29
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 32
	return lo + int(x%uint64(hi-lo))
}

// taken returns the number of sampled blocks, of the given number of blocks.
func taken(blocks int) int { return min(blocks, sampled) }

// draw examines the sampled blocks of a tensor. They are far apart, in no cache and on different pages: it reads a line
// of each of several in turn, so that the processor waits for all of these at once: 0.4 ms in place of 0.7, in a call
// of 6.
func draw(dt kernel.DType, g block.Grid, tensor []byte) (s sample) {
	const together = 16
	n := taken(g.Blocks())
	var at [together][]byte
	for i := 0; i < n; i += together {
		some := at[:min(together, n-i)]
		for j := range some {
			some[j] = g.Of(tensor, sampleAt(i+j, g.Blocks()), 1)
		}
		glance(some)
		for j, b := range some {
			var set [1]uint64
			if kernel.NonZero(dt, b, g.Size, set[:]); set[0] != 0 {
				s.set().Add(i + j)
			}
		}
	}
	return s
}

// sampleOf returns the sample of a known set, of the given number of blocks.
func sampleOf(set block.Set, blocks int) (s sample) {
	for i := range taken(blocks) {
		if set.Has(sampleAt(i, blocks)) {
			s.set().Add(i)
		}
	}
	return s
}

// thinness returns the part of the elements of sampled blocks in s that is zero, of 255, estimated from a few elements
// of each.
func (s *sample) thinness(g block.Grid, tensor []byte) uint8 {
	const each = 4
	zeros, all := 0, 0
	for i := range taken(g.Blocks()) {
		if !s.set().Has(i) {
			continue
		}
		b := g.Of(tensor, sampleAt(i, g.Blocks()), 1)
		n := len(b) / g.Width
		for k := range each {
			at := (k*n/each + i*7919) % n * g.Width
			all++
			if !slices.ContainsFunc(b[at:at+g.Width], func(v byte) bool { return v != 0 }) {
				zeros++
			}
		}
	}
	return uint8(255 * part(zeros, all))
}

// glance reads blocks of zeros into the nearest cache, and of others only the part up to the first non-zero word that
// it reads.
func glance(blocks [][]byte) {
	const line = 64
	hit := make([]bool, len(blocks))
	for at, left := 0, true; left; at += line {
		left = false
		for j, b := range blocks {
			if hit[j] || at+8 > len(b) {
				continue
			}
			left = true
			hit[j] = binary.NativeEndian.Uint64(b[at:]) != 0
		}
	}
}
