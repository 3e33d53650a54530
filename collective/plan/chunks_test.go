package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// A message is cut into at least four chunks, unless they became too small, and none is
// above a slot.
func TestChunks(t *testing.T) {
	for bytes, want := range map[int64]int{1: 8 << 10, 32 << 10: 8 << 10, 36 << 10: 9 << 10, 36<<10 + 1: 9<<10 + 64,
		36<<10 + 4: 9<<10 + 64, 1 << 20: 32 << 10} {
		if got := (Chunks{}).Of(bytes, 1, 1, 32<<10); got != want {
			t.Errorf("%d bytes in chunks of %d, want %d", bytes, got, want)
		}
	}
}

// All lanes of a plan have as many chunks as the widest, or fewer where these would be
// smaller than Min: so none is through long before the others. Chunks are multiples of
// 64 bytes and fit a slot.
func TestLanesHaveEquallyManyChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Plan{}
		for range rapid.IntRange(1, 8).Draw(t, "lanes") {
			p.Lanes = append(p.Lanes, Lane{Weight: rapid.Float64Range(0.001, 1).Draw(t, "weight")})
		}
		c := Chunks{Max: Quantum * rapid.IntRange(0, 4096).Draw(t, "max"),
			Min: Quantum * rapid.IntRange(0, 4096).Draw(t, "min")}
		slot := Quantum * rapid.IntRange(1, 4096).Draw(t, "slot")
		bytes := rapid.Int64Range(0, 1<<36).Draw(t, "bytes")
		cuts := p.Cuts()
		_, widest := Widths(cuts)
		chunks := func(i int) (n int64, size int) {
			share := CutAt(bytes, cuts[i+1], Quantum) - CutAt(bytes, cuts[i], Quantum)
			size = c.Of(share, cuts[i+1]-cuts[i], widest, slot)
			return (share + int64(size) - 1) / int64(size), size
		}
		most := int64(0)
		for i := range p.Lanes {
			if cuts[i+1]-cuts[i] == widest {
				n, _ := chunks(i)
				most = max(most, n)
			}
		}
		for i := range p.Lanes {
			n, size := chunks(i)
			if size <= 0 || size > slot || size%Quantum != 0 {
				t.Fatalf("lane %d: chunks of %d bytes in slots of %d", i, size, slot)
			}
			// Cuts are at multiples of Quantum: one of it may be a part of a narrow lane's chunk, and begin another. A chunk
			// is rounded down by less than a byte.
			if n > most+2+most/int64(size) || n < most*9/10-1 && size > max(MinChunk, c.Min)+Quantum {
				t.Errorf("lane %d has %d chunks of %d bytes, the widest %d", i, n, size, most)
			}
		}
	})
}
