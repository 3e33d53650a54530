//go:build cgo

package kernels_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// valueOf is the floating-point number that an element holds.
func valueOf(d kernel.DType, b []byte) float64 {
	bits := uint64(0)
	for k := range d.Size() {
		bits |= uint64(b[k]) << (8 * k)
	}
	switch d {
	case kernel.Float16:
		sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&1023)
		switch {
		case exponent == 31 && fraction != 0:
			return math.NaN()
		case exponent == 31:
			return math.Inf(int(sign))
		case exponent == 0:
			return sign * fraction / (1 << 24)
		}
		return sign * (1 + fraction/1024) * math.Pow(2, float64(exponent-15))
	case kernel.BFloat16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	case kernel.Float32:
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// integerOf returns the integer of type d at b.
func integerOf(d kernel.DType, b []byte) *big.Float {
	switch d {
	case kernel.Int8:
		return new(big.Float).SetInt64(int64(int8(b[0])))
	case kernel.Int32:
		return new(big.Float).SetInt64(int64(int32(binary.LittleEndian.Uint32(b))))
	case kernel.Int64:
		return new(big.Float).SetInt64(int64(binary.LittleEndian.Uint64(b)))
	case kernel.Uint8:
		return new(big.Float).SetUint64(uint64(b[0]))
	case kernel.Uint32:
		return new(big.Float).SetUint64(uint64(binary.LittleEndian.Uint32(b)))
	}
	return new(big.Float).SetUint64(binary.LittleEndian.Uint64(b))
}

// beyond reports whether the element of type d at b is further from zero than t, exactly,
// or a NaN.
func beyond(d kernel.DType, b []byte, t float64) bool {
	if d < kernel.Float16 {
		v := integerOf(d, b)
		return v.Abs(v).Cmp(big.NewFloat(t)) > 0
	}
	return !(math.Abs(valueOf(d, b)) <= t)
}

// thresholds lie at, beside and far from numbers of all types.
var thresholds = []float64{0, math.SmallestNonzeroFloat64, 1.0 / (1 << 24), 1.5 / (1 << 24), 0.5, 0.9999999999, 1,
	1.00001, 2.5, 126.5, 127, 128, 255, 300,
	65503, 65504, 65536, 1<<31 - 1, 1 << 31, 1<<31 + 0.5, 1<<32 - 1, 1 << 32, 1<<53 - 1, 1 << 53, 1<<53 + 2, 1 << 62,
	1<<63 - 1024, 1 << 63, 1 << 64,
	math.MaxFloat32, 3.4e38, 1e300, math.MaxFloat64}

// An element that is further from zero than the threshold is found, and a NaN, of
// whatever type; and no other one.
func TestBlocksAbove(t *testing.T) {
	g := first(t)
	for d := range kernel.DTypes {
		size, r := d.Size(), rand.New(rand.NewPCG(uint64(d), 9))
		const n, begin = 500, 64
		w := g.newTwin(t, r, d, begin+n*size)
		x := w.host[begin:]
		for _, threshold := range thresholds {
			fill(r, d, x)
			for i := range n / 2 { // integers near the threshold
				if v := uint64(int64(min(threshold, 1<<62))) + uint64(r.IntN(5)) - 2; r.IntN(2) == 0 && d < kernel.Float16 {
					var all [8]byte
					binary.LittleEndian.PutUint64(all[:], v*uint64(1-2*r.IntN(2)))
					copy(x[i*size:(i+1)*size], all[:])
				}
			}
			must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
			must(t, g.BlocksAbove(g.stream, d, w.at(0), w.at(begin), n, 1, threshold))
			bitmap := make([]byte, kernels.BitmapBytes(n, 1))
			for i := range n {
				if beyond(d, x[i*size:], threshold) {
					bitmap[i/8] |= 1 << (i % 8)
				}
			}
			copy(w.host, bitmap)
			g.compare(t, fmt.Sprintf("%v above %v", d, threshold), w)
		}
	}
}

// The blocks of a bitmap are copied, the others become zero or stay, wherever the
// arrays begin.
func TestCopyBlocks(t *testing.T) {
	g := first(t)
	for d := range kernel.DTypes {
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

// What makes no sense is refused, and nothing is launched.
func TestBlockArguments(t *testing.T) {
	g := first(t)
	w := g.newTwin(t, rand.New(rand.NewPCG(1, 1)), kernel.Float32, 1024)
	a, odd := w.at(0), w.at(2)
	for what, err := range map[string]error{
		"no block":    g.CopyBlocks(g.stream, kernel.Float32, a, a+512, a+256, 4, 0, true),
		"type":        g.CopyBlocks(g.stream, 0, a, a+512, a+256, 4, 2, true),
		"odd source":  g.CopyBlocks(g.stream, kernel.Float32, a, odd, a, 4, 2, true),
		"no bitmap":   g.CopyBlocks(g.stream, kernel.Float32, a, a+512, 0, 4, 2, true),
		"length":      g.CopyBlocks(g.stream, kernel.Float32, a, a+512, a, -1, 2, true),
		"threshold":   g.BlocksAbove(g.stream, kernel.Float32, a, a, 4, 2, -1),
		"not a limit": g.BlocksAbove(g.stream, kernel.Float32, a, a, 4, 2, math.NaN()),
		"infinity":    g.BlocksAbove(g.stream, kernel.Float32, a, a, 4, 2, math.Inf(1)),
	} {
		if !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%s: error %v, want one that wraps ErrArgument", what, err)
		}
	}
	g.compare(t, "after refused calls", w)
}
