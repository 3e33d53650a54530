//go:build cgo

package kernels_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

func TestScale(t *testing.T) {
	g := first(t)
	for d := range kernel.DeviceDTypes {
		size := d.Size()
		r := rand.New(rand.NewPCG(uint64(d), 5))
		for n := range lengths {
			w := g.newTwin(t, r, d, room(2, n*size))
			for range 3 {
				divisor := divisors[r.IntN(len(divisors))]
				p := places(r, 2, n*size, size)
				if r.IntN(2) == 0 {
					p[0] = p[1]
				}
				must(t, g.Divide(g.stream, d, w.at(p[0]), w.at(p[1]), int64(n), divisor))
				dst := w.host[p[0]:][:n*size]
				copy(dst, w.host[p[1]:])
				kernel.Scale(d, dst, int(divisor))
			}
			g.compare(t, fmt.Sprintf("division of %d %v", n, d), w)
			must(t, w.device.Free())
		}
	}
}

func TestScaleCopy(t *testing.T) {
	g := first(t)
	for d := range kernel.DeviceDTypes {
		size := d.Size()
		r := rand.New(rand.NewPCG(uint64(d), 6))
		for n := range lengths {
			w := g.newTwin(t, r, d, room(2, n*size))
			var factor [8]byte
			fill(r, d, factor[:])
			p := places(r, 2, n*size, size)
			must(t, g.Multiply(g.stream, d, w.at(p[0]), w.at(p[1]), int64(n), factor))
			kernel.ScaleCopy(d, w.host[p[0]:][:n*size], w.host[p[1]:][:n*size], factor)
			g.compare(t, fmt.Sprintf("product of %d %v with %x", n, d, factor), w)
			must(t, w.device.Free())
		}
	}
}

// Copies begin at any byte, on both sides.
func TestCopy(t *testing.T) {
	g := first(t)
	r := rand.New(rand.NewPCG(7, 7))
	for n := range lengths {
		w := g.newTwin(t, r, kernel.Uint8, room(3, n))
		for range 8 {
			p := places(r, 3, n, 1)
			src := w.host[p[2]:][:n]
			copy(w.host[p[0]:][:n], src)
			if r.IntN(2) == 0 {
				must(t, g.Copy(g.stream, w.at(p[0]), 0, w.at(p[2]), int64(n)))
			} else {
				must(t, g.Copy(g.stream, w.at(p[0]), w.at(p[1]), w.at(p[2]), int64(n)))
				copy(w.host[p[1]:][:n], src)
			}
		}
		g.compare(t, fmt.Sprintf("copy of %d bytes", n), w)
		must(t, w.device.Free())
	}
}

func TestNonZeroBlocks(t *testing.T) {
	g := first(t)
	for d := range kernel.DeviceDTypes {
		size := d.Size()
		r := rand.New(rand.NewPCG(uint64(d), 8))
		for n := range lengths {
			for _, block := range []int{1, 3, 8, 33, 256, 1 << 20} {
				bitmap := int(kernels.BitmapBytes(int64(n), int64(block)))
				begin := (bitmap+79)/16*16 + r.IntN(16/size)*size // with room around
				w := g.newTwin(t, r, d, begin+n*size+64)
				x := w.host[begin:][:n*size]
				clear(x)
				for range min(n, 1+r.IntN(n/8+1)) { // few elements are not zero; some are -0, or have one bit
					one := x[r.IntN(n)*size:][:size]
					if fill(r, d, one); r.IntN(2) == 0 {
						clear(one)
						one[r.IntN(size)] = 1 << r.IntN(8)
					}
				}
				must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
				must(t, g.NonZero(g.stream, d, w.at(0), w.at(begin), int64(n), int64(block)))
				copy(w.host, nonZero(d, x, block))
				g.compare(t, fmt.Sprintf("blocks of %d in %d %v", block, n, d), w)
				must(t, w.device.Free())
			}
		}
	}
}

// What makes no sense is refused, and nothing is launched.
func TestArguments(t *testing.T) {
	g := first(t)
	w := g.newTwin(t, rand.New(rand.NewPCG(1, 1)), kernel.Float32, 1024)
	a, odd := w.at(0), w.at(2)
	for what, err := range map[string]error{
		"operation":        g.Reduce(g.stream, 0, kernel.Float32, a, 0, a, a, 0, 4),
		"type":             g.Reduce(g.stream, kernel.Sum, 99, a, 0, a, a, 0, 4),
		"odd result":       g.Reduce(g.stream, kernel.Sum, kernel.Float32, odd, 0, a, a, 0, 4),
		"odd source":       g.Reduce(g.stream, kernel.Sum, kernel.Float32, a, 0, a, odd, 0, 4),
		"odd third":        g.Reduce(g.stream, kernel.Sum, kernel.Float32, a, 0, a, a, odd, 4),
		"no source":        g.Reduce(g.stream, kernel.Sum, kernel.Float32, a, 0, 0, a, 0, 4),
		"odd second":       g.Reduce(g.stream, kernel.Sum, kernel.Float32, a, odd, a, a, 0, 4),
		"length":           g.Reduce(g.stream, kernel.Sum, kernel.Float32, a, 0, a, a, 0, -1),
		"endless":          g.Reduce(g.stream, kernel.Sum, kernel.Float32, a, 0, a, a, 0, 1<<62),
		"divisor":          g.Divide(g.stream, kernel.Float32, a, a, 4, 0),
		"type to divide":   g.Divide(g.stream, 0, a, a, 4, 2),
		"odd to divide":    g.Divide(g.stream, kernel.Float32, odd, a, 4, 2),
		"type to multiply": g.Multiply(g.stream, 0, a, a, 4, [8]byte{}),
		"copy to nowhere":  g.Copy(g.stream, 0, 0, a, 4),
		"copy length":      g.Copy(g.stream, a, 0, a, -4),
		"block":            g.NonZero(g.stream, kernel.Float32, a, a, 4, 0),
		"odd bitmap":       g.NonZero(g.stream, kernel.Float32, odd, a, 4, 2),
	} {
		if !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%s: error %v, want one that wraps ErrArgument", what, err)
		}
	}
	g.compare(t, "after refused calls", w)
}
