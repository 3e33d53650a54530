package block

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Squeezed blocks are restored bit for bit, and dense ones are not changed, whatever their length.
func TestThin(t *testing.T) {
	var thin, other Thin
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := make([]byte, r.IntN(5000))
		one := []int{1, 2, 3, 10, 100, 10000}[r.IntN(6)]
		for i := range p {
			if r.IntN(one) == 0 {
				p[i] = byte(r.IntN(256))
			}
		}
		was := bytes.Clone(p)
		n := thin.Squeeze(p)
		if n == len(p) {
			if !bytes.Equal(p, was) || one == 10000 && len(p) >= 4*probes && len(p)%4 == 0 {
				t.Fatalf("seed %d: %d bytes, of which one in %d is not zero, are left alone", seed, n, one)
			}
			continue
		}
		back, err := other.Spread(p[:n], len(was))
		if err != nil || !bytes.Equal(back, was) || n > len(was)/2 {
			t.Fatalf("seed %d: %d bytes become %d, and come back so: %v (%v)", seed, len(was), n, bytes.Equal(back, was), err)
		}
	}
}

// FuzzSpread: any input is an error, or gives blocks of the requested size.
func FuzzSpread(f *testing.F) {
	p := make([]byte, 1024)
	p[7], p[1000] = 1, 2
	var thin Thin
	f.Add(p[:thin.Squeeze(p)], 1024)
	f.Add([]byte{}, 0)
	f.Add(make([]byte, 8), 4)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		var thin Thin
		if b, err := thin.Spread(p, size); err == nil && len(b) != size {
			t.Fatalf("%d bytes, want %d", len(b), size)
		}
	})
}
