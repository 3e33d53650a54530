package sparse

import (
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// A sample reports for each of its blocks whether it is non-zero, wherever in the block the element is, for blocks of
// every length, including the last one.
func TestDraw(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{1, 3, 16, 100, 256} {
		for _, blocks := range []int{1, 15, 17, sampled, 5 * sampled} {
			x := make([]float32, blocks*size-r.IntN(size))
			for range blocks / 3 {
				x[r.IntN(len(x))] = []float32{1, -2, 0.25}[r.IntN(3)]
			}
			x[len(x)-1] = 1
			g := block.Grid{Elements: len(x), Size: size, Width: 4}
			s := draw(kernel.Float32, g, kernel.BytesOf(x))
			for i := range taken(blocks) {
				b := sampleAt(i, blocks)
				want := false
				for _, v := range x[b*size : min((b+1)*size, len(x))] {
					want = want || v != 0
				}
				if got := s[i/64]>>(i%64)&1 != 0; got != want {
					t.Fatalf("blocks of %d: block %d counts: %v", size, b, got)
				}
			}
		}
	}
}

// A sample reports the part of zero elements in non-zero blocks; for a dense tensor, and for one of zeros, it reports
// none.
func TestThinness(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, size := range []int{1, 100, 256} {
		for _, zero := range []float64{0, 0.5, 0.9, 1} {
			const blocks = 3000
			x := make([]float64, blocks*size-size/2)
			for b := 0; b < blocks; b += 1 + b%3 {
				for i := b * size; i < min((b+1)*size, len(x)); i++ {
					if r.Float64() >= zero {
						x[i] = 1
					}
				}
			}
			g := block.Grid{Elements: len(x), Size: size, Width: 8}
			s := draw(kernel.Float64, g, kernel.BytesOf(x))
			got, want := float64(s.thinness(g, kernel.BytesOf(x)))/255, zero
			if size == 1 || zero == 1 {
				want = 0 // blocks of zeros do not count
			}
			if got < want-0.05 || got > want+0.05 || want == 0 && got != 0 {
				t.Errorf("blocks of %d, of which %g is zero: %g", size, zero, got)
			}
		}
	}
}

// Of memory that is in no cache.
func BenchmarkDraw(b *testing.B) {
	x := make([]float32, 512<<20/4)
	for i := range x {
		x[i] = 1 // else all of it is one page
	}
	clear(x)
	g := block.Grid{Elements: len(x) / 8, Size: 256, Width: 4}
	for i := 0; b.Loop(); i = (i + 1) % 8 {
		if s := draw(kernel.Float32, g, kernel.BytesOf(x[i*len(x)/8:][:len(x)/8])); s.set().Len() != 0 {
			b.Fatal(s)
		}
		b.StopTimer()
		clear(x[(i+2)%8*len(x)/8:][:len(x)/8]) // changes now and then
		b.StartTimer()
	}
}
