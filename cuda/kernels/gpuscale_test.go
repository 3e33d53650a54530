//go:build cgo && linux

package kernels_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/cuda"
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

// Copies begin at any byte, on both sides, up to sixteen in a launch.
func TestCopy(t *testing.T) {
	g := first(t)
	r := rand.New(rand.NewPCG(7, 7))
	for n := range lengths {
		w := g.newTwin(t, r, kernel.Uint8, room(40, n))
		p := places(r, 40, n, 1)
		var parts []kernels.Part
		for i := range 1 + r.IntN(13) {
			one := kernels.Part{From: []cuda.Addr{w.at(p[3*i])}, Bytes: int64(n)}
			for _, to := range p[3*i+1 : 3*i+2+r.IntN(2)] {
				one.To = append(one.To, w.at(to))
				copy(w.host[to:][:n], w.host[p[3*i]:])
			}
			parts = append(parts, one)
		}
		must(t, g.Run(g.stream, nil, parts))
		g.compare(t, fmt.Sprintf("copies of %d bytes", n), w)
		must(t, w.device.Free())
	}
}

func TestNonZeroBlocks(t *testing.T) {
	g := first(t)
	for d := range realTypes {
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

// Invalid arguments are refused, and nothing is launched.
func TestArguments(t *testing.T) {
	g := first(t)
	w := g.newTwin(t, rand.New(rand.NewPCG(1, 1)), kernel.Float32, 1024)
	a, odd := w.at(0), w.at(2)
	run := func(op kernel.Op, d kernel.DType, bytes int64, to []cuda.Addr, from ...cuda.Addr) error {
		return g.Run(g.stream, &kernel.Work{DType: d, Op: op}, []kernels.Part{{To: to, From: from, Bytes: bytes}})
	}
	const f32 = kernel.Float32
	to := []cuda.Addr{a}
	for what, err := range map[string]error{
		"operation":         run(0, f32, 16, to, a, a),
		"operation of bits": run(kernel.Xor, kernel.Int32, 16, to, a, a),
		"type":              run(kernel.Sum, 99, 16, to, a, a),
		"odd result":        run(kernel.Sum, f32, 16, []cuda.Addr{odd}, a, a),
		"odd source":        run(kernel.Sum, f32, 16, to, a, odd),
		"odd third":         run(kernel.Sum, f32, 16, to, a, a, odd),
		"a source at 0":     run(kernel.Sum, f32, 16, to, 0, a),
		"no source":         run(kernel.Sum, f32, 16, to),
		"no result":         run(kernel.Sum, f32, 16, nil, a),
		"odd second":        run(kernel.Sum, f32, 16, []cuda.Addr{a, odd}, a, a),
		"length":            run(kernel.Sum, f32, -4, to, a, a),
		"endless":           run(0, 0, 1<<62+1, to, a),
		"too many arrays":   run(kernel.Sum, f32, 16, to, slices.Repeat(to, kernels.MaxArrays)...),
		"too many parts":    g.Run(g.stream, nil, slices.Repeat([]kernels.Part{{To: to, From: to, Bytes: 1}}, 17)),
		"divisor":           g.Divide(g.stream, kernel.Float32, a, a, 4, 0),
		"type to divide":    g.Divide(g.stream, 0, a, a, 4, 2),
		"odd to divide":     g.Divide(g.stream, kernel.Float32, odd, a, 4, 2),
		"copy to nowhere":   run(0, 0, 4, []cuda.Addr{0}, a),
		"copy length":       run(0, 0, -4, to, a),
		"block":             g.NonZero(g.stream, kernel.Float32, a, a, 4, 0),
		"odd bitmap":        g.NonZero(g.stream, kernel.Float32, odd, a, 4, 2),
	} {
		if !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%s: error %v, want one that wraps ErrArgument", what, err)
		}
	}
	g.compare(t, "after refused calls", w)
}
