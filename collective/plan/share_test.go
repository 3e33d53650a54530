package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// The chunks of all lanes of a part, one after the other, are the part: they begin at multiples of Quantum, fit a slot,
// and only an empty message has an empty one, of the first lane. Without slots a lane has one chunk.
func TestSpansAreTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Plan{}
		parts := rapid.IntRange(1, 4).Draw(t, "parts")
		for part := range parts {
			for range rapid.IntRange(1, 4).Draw(t, "lanes") {
				p.Lanes = append(p.Lanes, Lane{Part: part, Weight: rapid.Float64Range(0.001, 1).Draw(t, "weight")})
			}
		}
		elem := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "elem")
		count := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1<<20)).Draw(t, "count")
		slot := Quantum * rapid.IntRange(0, 1024).Draw(t, "slot")
		ends := make([]int, parts)
		for lane, s := range p.Shares() {
			d := s.Span(count, elem, Chunks{Min: Quantum}, slot)
			if slot == 0 && d.Chunks > 1 || (d.Chunks > 0) != (d.Bytes > 0 || count == 0 && lane == 0) {
				t.Fatalf("lane %d: %d bytes in %d chunks, slots of %d bytes", lane, d.Bytes, d.Chunks, slot)
			}
			for j := range d.Chunks {
				at, n := d.Chunk(j)
				if at != ends[s.Part] || n <= 0 && count > 0 || slot > 0 && n > slot || at%Quantum != 0 {
					t.Fatalf("lane %d, chunk %d: %d bytes from %d on, behind %d, in slots of %d", lane, j, n, at, ends[s.Part], slot)
				}
				ends[s.Part] = at + n
			}
		}
		for part, end := range ends {
			if end != int(count)*elem {
				t.Fatalf("the lanes of part %d carry %d bytes of %d", part, end, int(count)*elem)
			}
		}
	})
}
