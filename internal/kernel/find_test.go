package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// oracleBlocks checks one number after the other: which blocks have one that is not zero, and whether another has
// anything but +0.
func oracleBlocks(dt DType, src []byte, size int) (blocks []bool, rest bool) {
	if dt.Complex() {
		dt, size = dt.part(), 2*size
	}
	for from := 0; from < len(src); from += size * dt.Size() {
		counts, dirty := false, false
		for i := from; i < min(from+size*dt.Size(), len(src)); i += dt.Size() {
			x := load(dt, src[i:])
			if dt.Float() {
				v := math.Abs(floatOf(dt, x))
				counts = counts || v != v || v > 0
			} else {
				counts = counts || x != 0
			}
			dirty = dirty || x != 0
		}
		blocks = append(blocks, counts)
		rest = rest || dirty && !counts
	}
	return blocks, rest
}

func compareBlocks(t *testing.T, dt DType, g guard, size int) {
	t.Helper()
	src := g.data()
	want, wantRest := oracleBlocks(dt, src, size)
	before := bytes.Clone(g.memory)
	for _, l := range levels() {
		bits := make([]uint64, (len(want)+63)/64)
		var rest bool
		if l == levelGo {
			rest = nonZeroGo(src, size*dt.Size(), magnitude(dt), bits)
		} else {
			rest = nonZeroNative(l, src, size*dt.Size(), magnitude(dt), bits)
		}
		name := fmt.Sprintf("%v, %d elements in blocks of %d, with %v", dt, len(src)/dt.Size(), size, l)
		for b := range len(bits) * 64 {
			if got := bits[b/64]>>(b%64)&1 != 0; got != (b < len(want) && want[b]) {
				t.Fatalf("%s: block %d of %d counts: %v", name, b, len(want), got)
			}
		}
		if rest != wantRest {
			t.Fatalf("%s: rest is %v", name, rest)
		}
	}
	if !bytes.Equal(before, g.memory) {
		t.Fatalf("%v: the tensor was written to", dt)
	}
}

// Blocks of zeros, of zeros of either sign, with one number of any kind at any
// place, and full ones.
func TestBlocksOfEveryLengthAndOffset(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for dt := range DTypes {
		for n := range 400 {
			size := []int{1, 2, 3, 7, 16, 32, 64, 100, 256}[r.IntN(9)]
			g := guarded(n*dt.Size(), r.IntN(64))
			data := g.data()
			clear(data)
			for from := 0; from < len(data); from += size * dt.Size() {
				part := data[from:min(from+size*dt.Size(), len(data))]
				at := r.IntN(len(part)/dt.Size()) * dt.Size()
				switch r.IntN(4) {
				case 0:
					fill(r, dt, part)
				case 1:
					fill(r, dt, part[at:at+dt.Size()])
				case 2:
					store(dt, part[at:], 1<<(8*dt.Size()-1)) // -0
				}
			}
			compareBlocks(t, dt, g, size)
		}
	}
}

// One number, of every kind at which code goes wrong, at every place of a block
// whose neighbors are zero, at every address.
func TestOneNumberInABlock(t *testing.T) {
	for dt, numbers := range special {
		for i, x := range numbers {
			for at := range 70 {
				g := guarded(3*70*dt.Size(), (i*70+at)%64)
				clear(g.data())
				store(dt, g.data()[(70+at)*dt.Size():], x)
				compareBlocks(t, dt, g, 70)
			}
		}
	}
}

func TestNonZeroAsExported(t *testing.T) {
	src := make([]byte, 4*1000)
	store(Float32, src[4*700:], 1<<31) // -0
	bits := []uint64{^uint64(0)}       // old contents are cleared
	if rest := NonZero(Float32, src, 256, bits); !rest || bits[0] != 0 {
		t.Errorf("zeros of either sign: %b, rest %v", bits[0], rest)
	}
	store(Float32, src[4*999:], uint64(math.Float32bits(0.25)))
	if NonZero(Float32, src, 256, bits); bits[0] != 1<<3 {
		t.Errorf("a number at the end: %b", bits[0])
	}
	if NonZero(Float32, nil, 256, nil) {
		t.Error("no elements: rest")
	}
	if n := testing.AllocsPerRun(20, func() { NonZero(Float32, src, 256, bits) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for name, f := range map[string]func(){
		"words": func() { NonZero(Float32, src, 256, make([]uint64, 2)) },
		"size":  func() { NonZero(Float32, src, 0, bits) },
		"part":  func() { NonZero(Float32, src[:6], 256, bits) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// FuzzNonZero holds every implementation against the oracle.
func FuzzNonZero(f *testing.F) {
	f.Add(uint8(Float32), uint16(2), uint8(0), []byte("\x00\x00\x00\x80\x00\x00\x00\x00\x01\x00\x00\x00"))
	f.Add(uint8(Float16), uint16(64), uint8(3), slices.Repeat([]byte{0, 0x80}, 300))
	f.Add(uint8(Int64), uint16(9), uint8(1), make([]byte, 1000))
	f.Fuzz(func(t *testing.T, dt uint8, size uint16, offset uint8, data []byte) {
		if !DType(dt).Valid() || size == 0 {
			t.Skip()
		}
		n := len(data) / DType(dt).Size() * DType(dt).Size()
		g := guarded(n, int(offset%64))
		copy(g.data(), data)
		compareBlocks(t, DType(dt), g, int(size))
	})
}

// BenchmarkNonZero counts the bytes of a tensor of zeros, which are all read.
func BenchmarkNonZero(b *testing.B) {
	for _, l := range levels() {
		for _, n := range []int{64 << 10, 64 << 20} {
			src, bits := make([]byte, n), make([]uint64, n/1024/64)
			fill(rand.New(rand.NewPCG(1, 1)), Uint8, src) // makes the pages present
			clear(src)
			b.Run(fmt.Sprintf("%v/%d", l, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					if l == levelGo {
						nonZeroGo(src, 1024, magnitude(Float32), bits)
					} else {
						nonZeroNative(l, src, 1024, magnitude(Float32), bits)
					}
				}
			})
		}
	}
}

// Tensors that are read from several places by turns, and the rest behind them.
func TestBlocksOfLongTensors(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, dt := range []DType{Float16, Float32, Int64} {
		for i, bytes := range []int{128 << 10, 3*128<<10 + 8, 200_000, 100_000} {
			for _, size := range []int{64, 128, 250, 256, 1024, 4096} {
				g := guarded(bytes, 8*i)
				data := g.data()
				clear(data)
				for from := 0; from < len(data); from += size * dt.Size() {
					at := from + r.IntN(size)*dt.Size() + dt.Size() - 1
					switch r.IntN(40 / (1 + 3*i)) {
					case 0:
						if at < len(data) {
							data[at] = 1
						}
					case 1:
						if at < len(data) && i > 1 {
							data[at] = 0x80 // -0, of floats
						}
					}
				}
				compareBlocks(t, dt, g, size)
			}
		}
	}
}
