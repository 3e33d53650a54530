package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// reduceManyAt runs one implementation, whatever the size.
func reduceManyAt(l level, op Op, dt DType, dst []byte, srcs [][]byte, stream bool) {
	op, dt = op.on(dt)
	switch {
	case l == levelGo:
		reduceManyGo(op, dt, dst, srcs)
	case len(srcs) <= maxNative:
		reduceManyNative(l, op, dt, dst, srcs, stream)
	default:
		reduceManyBlocks(l, op, dt, dst, srcs, stream)
	}
}

// compareMany runs every implementation on k random sources of n elements and checks the results against the oracle,
// taken pair by pair: into memory of its own, and into one of the sources.
func compareMany(t *testing.T, r *rand.Rand, op Op, dt DType, n, k int) {
	t.Helper()
	sources := make([]guard, k)
	for i := range sources {
		sources[i] = guarded(n*dt.Size(), r.IntN(64))
		fill(r, dt, sources[i].data())
	}
	want := sources[0].data()
	for _, s := range sources[1:] {
		want = oracleReduce(op, dt, want, s.data())
	}
	for _, l := range levels() {
		for _, stream := range []bool{false, true} {
			for _, into := range []int{-1, r.IntN(k)} {
				name := fmt.Sprintf("%v of %d x %d %v into %d with %v, stream %v", op, k, n, dt, into, l, stream)
				dst := guarded(n*dt.Size(), r.IntN(64))
				srcs := make([][]byte, k)
				for i, s := range sources {
					srcs[i] = s.data()
				}
				if into >= 0 {
					dst = sources[into].clone()
					srcs[into] = dst.data()
				}
				reduceManyAt(l, op, dt, dst.data(), srcs, stream)
				dst.expect(t, name, want)
			}
		}
	}
}

func TestReduceManyOfEveryNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for dt := range DTypes {
		for op := range opsOf(dt) {
			for k := 2; k <= 18; k++ {
				compareMany(t, r, op, dt, r.IntN(131), k)
			}
		}
	}
}

func TestReduceManyOfEveryLength(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for dt := range DTypes {
		for n := range 131 {
			compareMany(t, r, anyOp(r, dt), dt, n, 2+r.IntN(9))
		}
	}
}

// Longer than the blocks in which partial results are kept.
func TestReduceManyOfSeveralBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for dt := range DTypes {
		for _, bytes := range []int{8300} {
			for _, k := range []int{3, 8, 11} {
				compareMany(t, r, anyOp(r, dt), dt, bytes/dt.Size()+r.IntN(9), k)
			}
		}
	}
}

func TestReduceManyIntoSeveralSources(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, k := range []int{3, 8, 12} {
		for _, l := range levels() {
			a, b := make([]byte, 9000), make([]byte, 9000)
			fill(r, Int32, a)
			fill(r, Int32, b)
			srcs := make([][]byte, k)
			for i := range srcs {
				srcs[i] = [][]byte{a, b}[i%2]
			}
			want := srcs[0]
			for _, s := range srcs[1:] {
				want = oracleReduce(Prod, Int32, want, s)
			}
			reduceManyAt(l, Prod, Int32, b, srcs, true)
			if !bytes.Equal(b, want) {
				t.Errorf("%d sources with %v: wrong", k, l)
			}
		}
	}
}

// Where Reduce takes another implementation, ReduceMany and repeated Reduce
// still agree.
func TestReduceManyIsRepeatedReduce(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for dt := range DTypes {
		for op := range opsOf(dt) {
			for _, size := range []int{0, 8, 16, 24, 32, 64, 128, 256, 1024} {
				if size%dt.Size() != 0 {
					continue
				}
				for _, k := range []int{1, 2, 3, 8, 9} {
					srcs := make([][]byte, k)
					for i := range srcs {
						srcs[i] = make([]byte, size)
						fill(r, dt, srcs[i])
					}
					want := bytes.Clone(srcs[0])
					for _, s := range srcs[1:] {
						Reduce(op, dt, want, want, s)
					}
					got := make([]byte, size)
					if ReduceMany(op, dt, got, srcs, false); !bytes.Equal(got, want) {
						t.Errorf("%v of %d x %d bytes of %v: % x, want % x", op, k, size, dt, got, want)
					}
				}
			}
		}
	}
}

// The operands of any operation may change places: all ranks get the same
// bits, whichever of two inputs is theirs.
func TestCommutative(t *testing.T) {
	for dt, numbers := range special {
		for op := range opsOf(dt) {
			for _, l := range levels() {
				for _, x := range numbers {
					for _, y := range numbers {
						a, b := make([]byte, dt.Size()), make([]byte, dt.Size())
						store(dt, a, x)
						store(dt, b, y)
						ab, ba := bytes.Clone(a), bytes.Clone(a)
						reduceAt(l, op, dt, ab, a, b)
						reduceAt(l, op, dt, ba, b, a)
						if !bytes.Equal(ab, ba) {
							t.Errorf("%v of %v %#x and %#x with %v: % x one way, % x the other", op, dt, x, y, l, ab, ba)
						}
						isNaN := floatOf(dt, x) != floatOf(dt, x) || floatOf(dt, y) != floatOf(dt, y)
						if isNaN && load(dt, ab) != nanBits[dt] {
							t.Errorf("%v of %v %#x and %#x with %v: % x, want the plain NaN", op, dt, x, y, l, ab)
						}
					}
				}
			}
		}
	}
}

func TestReduceManyRefuses(t *testing.T) {
	b := make([]byte, 16)
	for name, f := range map[string]func(){
		"no source":   func() { ReduceMany(Sum, Int8, b, nil, false) },
		"lengths":     func() { ReduceMany(Sum, Int8, b, [][]byte{b, b, b[:8]}, false) },
		"part of one": func() { ReduceMany(Sum, Int32, b[:6], [][]byte{b[:6], b[:6]}, false) },
		"operation":   func() { ReduceMany(0, Int8, b, [][]byte{b, b}, false) },
		"copy":        func() { Copy(b, b[:8], false) },
		"multiply":    func() { ScaleCopy(Int8, b, b[:8], Factor{}) },
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

// FuzzReduceMany cuts its data into k sources.
func FuzzReduceMany(f *testing.F) {
	f.Add(uint8(Sum), uint8(Float32), uint8(3), uint8(1), []byte("\x00\x00\x80\x7f\x00\x00\x80\xff\x01\x00\x80\x7f"))
	f.Add(uint8(Min), uint8(BFloat16), uint8(9), uint8(0), bytes.Repeat([]byte{0, 0x80, 0, 0, 0xC1, 0xFF}, 50))
	f.Add(uint8(Prod), uint8(Float16), uint8(8), uint8(7), bytes.Repeat([]byte{1, 0x3C, 0xFF, 0x7B, 1}, 60))
	f.Fuzz(func(t *testing.T, op, dt, k, offset uint8, data []byte) {
		if !DType(dt).Valid() || !Op(op).Takes(DType(dt)) || k < 2 || k > 20 {
			t.Skip()
		}
		n := len(data) / int(k) / DType(dt).Size() * DType(dt).Size()
		srcs := make([][]byte, k)
		for i := range srcs {
			srcs[i] = data[i*n:][:n:n]
		}
		want := srcs[0]
		for _, s := range srcs[1:] {
			want = oracleReduce(Op(op), DType(dt), want, s)
		}
		for _, l := range levels() {
			dst := guarded(n, int(offset%64))
			reduceManyAt(l, Op(op), DType(dt), dst.data(), srcs, offset%2 == 0)
			dst.expect(t, fmt.Sprintf("%v of %d x %d bytes of %v with %v", Op(op), k, n, DType(dt), l), want)
		}
	})
}
