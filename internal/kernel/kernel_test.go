package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// DTypes yields all element types.
func DTypes(yield func(DType) bool) {
	for d := Int8; d < dtypeEnd && yield(d); d++ {
	}
}

// opsOf yields the operations that have results for elements of type dt.
func opsOf(dt DType) func(yield func(Op) bool) {
	return func(yield func(Op) bool) {
		for op := Sum; op < opEnd; op++ {
			if op.Takes(dt) && !yield(op) {
				return
			}
		}
	}
}

// anyOp returns one of the operations of opsOf.
func anyOp(r *rand.Rand, dt DType) Op {
	all := slices.Collect(opsOf(dt))
	return all[r.IntN(len(all))]
}

// levels are the implementations that this processor can run.
func levels() []level {
	var all []level
	for l := levelGo; l <= best; l++ {
		all = append(all, l)
	}
	return all
}

// reduceAt runs one implementation, whatever the size.
func reduceAt(l level, op Op, dt DType, dst, a, b []byte) {
	op, dt = op.on(dt)
	if l == levelGo {
		reduceGo(op, dt, dst, a, b)
	} else {
		reduceNative(l, op, dt, dst, a, b)
	}
}

func scaleAt(l level, dt DType, dst []byte, n int) {
	if dt = dt.part(); l == levelGo {
		scaleGo(dt, dst, n)
	} else {
		divideNative(l, dt, dst, n)
	}
}

// special are numbers at which floating-point code goes wrong: zeros,
// infinities, NaN with and without payload, the least and largest normal and
// subnormal numbers.
var special = map[DType][]uint64{
	Float16: {0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0xFD55, 1, 0x8001, 0x3FF, 0x83FF, 0x400, 0x8400, 0x7BFF,
		0xFBFF, 0x3C00, 0xBC00},
	BFloat16: {0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0xFFAA, 1, 0x8001, 0x7F, 0x807F, 0x80, 0x8080, 0x7F7F,
		0xFF7F, 0x3F80, 0xBF80},
	Float32: {0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFABCDEF, 1, 0x80000001, 0x7FFFFF,
		0x807FFFFF, 0x800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000},
	Float64: {0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8<<48 | 1, 0x7FF<<52 | 1, 0xFFF<<52 | 0xABCDEF, 1,
		1<<63 | 1, 1<<52 - 1, 1<<63 | (1<<52 - 1), 1 << 52, 0x801 << 52, 0x7FF<<52 - 1, 0xFFF<<52 - 1, 0x3FF << 52,
		0xBFF << 52},
}

// fill writes elements of all kinds to b: random bits, numbers of like size,
// extremes.
func fill(r *rand.Rand, dt DType, b []byte) {
	dt = dt.part()
	for i := 0; i+dt.Size() <= len(b); i += dt.Size() {
		v := r.Uint64()
		switch {
		case dt == Bool:
			v = uint64(r.IntN(2))
		case r.IntN(4) == 0 && dt.Float():
			v = special[dt][r.IntN(len(special[dt]))]
		case r.IntN(2) == 0 && dt.Float():
			v = bitsOfFloat(dt, r.NormFloat64())
		case r.IntN(8) == 0:
			v = []uint64{0, math.MaxUint64, 1 << (8*dt.Size() - 1), 1<<(8*dt.Size()-1) - 1}[r.IntN(4)]
		}
		store(dt, b[i:], v)
	}
}

func TestReduceOfEveryLengthAndOffset(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for dt := range DTypes {
		for op := range opsOf(dt) {
			for n := range 131 {
				a, b := guarded(n*dt.Size(), r.IntN(64)), guarded(n*dt.Size(), r.IntN(64))
				fill(r, dt, a.data())
				fill(r, dt, b.data())
				compare(t, op, dt, a, b, r.IntN(64))
			}
		}
	}
}

func TestReduceAtEveryAddress(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for dt := range DTypes {
		for _, n := range []int{1, 3, 65, 130} {
			for offset := range 64 {
				a, b := guarded(n*dt.Size(), offset), guarded(n*dt.Size(), 63-offset)
				fill(r, dt, a.data())
				fill(r, dt, b.data())
				op := anyOp(r, dt)
				compare(t, op, dt, a, b, offset*7%64)
			}
		}
	}
}

// compare runs every implementation on a and b, into memory of its own and in place, and checks the results against the
// oracle.
func compare(t *testing.T, op Op, dt DType, a, b guard, offset int) {
	t.Helper()
	want := oracleReduce(op, dt, a.data(), b.data())
	wantSelf := oracleReduce(op, dt, a.data(), a.data())
	for _, l := range levels() {
		name := fmt.Sprintf("%v %v of %d at %d with %v", op, dt, len(want)/dt.Size(), offset, l)
		dst := guarded(len(want), offset)
		reduceAt(l, op, dt, dst.data(), a.data(), b.data())
		dst.expect(t, name, want)

		left := a.clone()
		reduceAt(l, op, dt, left.data(), left.data(), b.data())
		left.expect(t, name+", into a", want)

		right := b.clone()
		reduceAt(l, op, dt, right.data(), a.data(), right.data())
		right.expect(t, name+", into b", want)

		both := a.clone()
		reduceAt(l, op, dt, both.data(), both.data(), both.data())
		both.expect(t, name+", into both", wantSelf)
	}
}

// A guard is memory that begins offset bytes after an aligned address, with known
// bytes before and after it.
type guard struct {
	memory     []byte
	begin, end int
}

const guardByte = 0xA5

func guarded(n, offset int) guard {
	memory := make([]byte, 64+64+n+64)
	for i := range memory {
		memory[i] = guardByte
	}
	begin := 64 + offset
	return guard{memory, begin, begin + n}
}

func (g guard) data() []byte { return g.memory[g.begin:g.end:g.end] }

func (g guard) clone() guard { return guard{bytes.Clone(g.memory), g.begin, g.end} }

func (g guard) expect(t *testing.T, name string, want []byte) {
	t.Helper()
	if !bytes.Equal(g.data(), want) {
		for i := range want {
			if g.data()[i] != want[i] {
				t.Fatalf("%s: byte %d is %#x, want %#x", name, i, g.data()[i], want[i])
			}
		}
	}
	for i, x := range g.memory {
		if (i < g.begin || i >= g.end) && x != guardByte {
			t.Fatalf("%s: wrote outside, %d bytes from the begin of %d", name, i-g.begin, g.end-g.begin)
		}
	}
}

func TestSpecialPairs(t *testing.T) {
	for dt, numbers := range special {
		var a, b []byte
		for _, x := range numbers {
			for _, y := range numbers {
				var e [8]byte
				store(dt, e[:], x)
				a = append(a, e[:dt.Size()]...)
				store(dt, e[:], y)
				b = append(b, e[:dt.Size()]...)
			}
		}
		ga, gb := guarded(len(a), 0), guarded(len(b), 0)
		copy(ga.data(), a)
		copy(gb.data(), b)
		for op := range opsOf(dt) {
			compare(t, op, dt, ga, gb, 0)
		}
	}
}

// Every 16-bit float goes through the conversion to float32 and back.
func TestEvery16BitFloat(t *testing.T) {
	for _, dt := range []DType{Float16, BFloat16} {
		a, b := guarded(1<<17, 0), guarded(1<<17, 0)
		for i := range 1 << 16 {
			store(dt, a.data()[2*i:], uint64(i))
			store(dt, b.data()[2*i:], uint64(i*40503)%(1<<16))
		}
		for op := range opsOf(dt) {
			want := oracleReduce(op, dt, a.data(), b.data())
			for _, l := range levels() {
				dst := guarded(1<<17, 0)
				reduceAt(l, op, dt, dst.data(), a.data(), b.data())
				dst.expect(t, fmt.Sprintf("%v %v with %v", op, dt, l), want)
			}
		}
	}
}

// The exported functions choose an implementation by size; the result is the
// same on both sides of the choice.
func TestExportedFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for dt := range DTypes {
		for _, size := range []int{0, 16, crossover(dt) - 16, crossover(dt), 4 * crossover(dt)} {
			a, b, dst := make([]byte, size), make([]byte, size), make([]byte, size)
			fill(r, dt, a)
			fill(r, dt, b)
			for op := range opsOf(dt) {
				Reduce(op, dt, dst, a, b)
				if want := oracleReduce(op, dt, a, b); !bytes.Equal(dst, want) {
					t.Errorf("Reduce %v %v of %d bytes: % x, want % x", op, dt, size, dst, want)
				}
			}
			if !Avg.Takes(dt) {
				continue
			}
			want := oracleScale(dt, a, 3)
			before := bytes.Clone(a)
			if Scale(dt, a, 1); !bytes.Equal(a, before) {
				t.Errorf("Scale %v of %d bytes by 1 changed them", dt, size)
			}
			if Scale(dt, a, 3); !bytes.Equal(a, want) {
				t.Errorf("Scale %v of %d bytes: % x, want % x", dt, size, a, want)
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	for dt := range DTypes {
		if dt == Bool {
			continue // has no Sum
		}
		for _, size := range []int{16, 128, 4096} {
			memory := make([]byte, 3*size+3)
			srcs := make([][]byte, 11)
			for _, offset := range []int{0, 1} {
				dst, a, b := memory[offset:][:size], memory[size+offset:][:size], memory[2*size+offset:][:size]
				for i := range srcs {
					srcs[i] = [][]byte{a, b, dst}[i%3]
				}
				if n := testing.AllocsPerRun(20, func() {
					Reduce(Sum, dt, dst, a, b)
					Reduce(Prod, dt, dst, dst, b)
					Scale(dt, dst, 3)
					ScaleCopy(dt, dst, a, Factor{1, 2, 3})
					ReduceMany(Sum, dt, dst, srcs, true)
					Copy(dst, a, true)
				}); n != 0 {
					t.Errorf("%v, %d bytes at offset %d: %v allocations", dt, size, offset, n)
				}
			}
		}
	}
}

func TestBrokenInvariantsPanic(t *testing.T) {
	b := make([]byte, 16)
	for name, f := range map[string]func(){
		"lengths":          func() { Reduce(Sum, Int8, b, b[:8], b) },
		"part of one":      func() { Reduce(Sum, Int32, b[:6], b[:6], b[:6]) },
		"type":             func() { Reduce(Sum, 0, b, b, b) },
		"operation":        func() { Reduce(opEnd, Int8, b, b, b) },
		"bits of floats":   func() { Reduce(Xor, Float16, b, b, b) },
		"least complex":    func() { Reduce(Min, Complex64, b, b, b) },
		"sum of bools":     func() { Reduce(Sum, Bool, b, b, b) },
		"average of bools": func() { Scale(Bool, b, 2) },
		"divisor":          func() { Scale(Int8, b, 0) },
		"type of scale":    func() { Scale(dtypeEnd, b, 2) },
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

func TestNames(t *testing.T) {
	for dt, want := range map[DType]string{Int8: "int8", Uint8: "uint8", Int32: "int32", Uint32: "uint32", Int64: "int64",
		Uint64: "uint64", Int16: "int16", Uint16: "uint16",
		Float16: "float16", BFloat16: "bfloat16", Float32: "float32", Float64: "float64", 0: "DType(0)",
		Complex64: "complex64", Complex128: "complex128", Bool: "bool", dtypeEnd: "DType(16)"} {
		if dt.String() != want {
			t.Errorf("DType %d is %q, want %q", dt, dt, want)
		}
		if dt.Valid() != (dt.Size() > 0) {
			t.Errorf("%v: valid %v, size %d", dt, dt.Valid(), dt.Size())
		}
	}
	for op, want := range map[Op]string{Sum: "sum", Prod: "prod", Min: "min", Max: "max", Avg: "avg", 0: "Op(0)",
		And: "and", Or: "or", Xor: "xor", LogicalAnd: "land", LogicalOr: "lor", LogicalXor: "lxor", opEnd: "Op(12)"} {
		if op.String() != want {
			t.Errorf("Op %d is %q, want %q", op, op, want)
		}
	}
}

// FuzzReduce checks every implementation against the oracle.
func FuzzReduce(f *testing.F) {
	f.Add(uint8(Sum), uint8(Float32), uint8(0), uint8(0), []byte("\x00\x00\x80\x7f\x00\x00\x80\xff"))
	f.Add(uint8(Min), uint8(Float16), uint8(1), uint8(2), []byte("\x00\x80\x00\x00\x01\x7c\x00\x3c"))
	f.Add(uint8(Max), uint8(BFloat16), uint8(3), uint8(0), []byte("\xc0\x7f\x80\x3f\x00\x80\x00\x00"))
	f.Add(uint8(Prod), uint8(Int64), uint8(5), uint8(9), bytes.Repeat([]byte{0xFF, 0x80, 3}, 100))
	f.Add(uint8(Prod), uint8(Complex64), uint8(4), uint8(1),
		[]byte("\x00\x00\x80\x7f\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x80\x3f"))
	f.Add(uint8(LogicalXor), uint8(Int16), uint8(1), uint8(2), bytes.Repeat([]byte{0, 0, 2, 0, 1, 0}, 60))
	f.Add(uint8(Avg), uint8(Uint8), uint8(7), uint8(63), bytes.Repeat([]byte{200, 100}, 333))
	f.Fuzz(func(t *testing.T, op, dt, offsetA, offsetB uint8, data []byte) {
		if !DType(dt).Valid() || !Op(op).Takes(DType(dt)) {
			t.Skip()
		}
		n := len(data) / 2 / DType(dt).Size() * DType(dt).Size()
		a, b := guarded(n, int(offsetA%64)), guarded(n, int(offsetB%64))
		copy(a.data(), data[:n])
		copy(b.data(), data[n:])
		compare(t, Op(op), DType(dt), a, b, int(offsetA^offsetB)%64)
	})
}

func (l level) String() string {
	return [...]string{"go", "c", "avx2", "avx512"}[l]
}

// TestTypeNames: a text of another process gets the names of the types that only this one has used.
func TestTypeNames(t *testing.T) {
	const mine, theirs = Opaque + 700, Opaque + 701
	text := fmt.Sprintf("rank 1 has %v, rank 0 %s, rank 2 %v", mine, theirs.Name(), Opaque)
	mine.SetName("main.pair")
	for range 2 { // also where the text has them
		text = WithTypeNames(text)
		want := "rank 1 has bytes of main.pair, digest 02fc, rank 0 a type with digest 02fd, rank 2 bytes of an object"
		if text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}
