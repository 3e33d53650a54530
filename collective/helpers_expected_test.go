package collective

import (
	"math"
	"math/rand/v2"

	"github.com/treerun/treerun/collective/plan"
)

// The oracle: the memory contents that a call must leave, computed one rank after the other in float64. The inputs are
// small whole numbers, so that every element type holds every partial result exactly and the order of additions does
// not matter; where integers wrap, the oracle wraps at the end.

// call is a collective call without its element type.
type call struct {
	kind    plan.Kind
	op      Op // 0 where nothing is reduced
	premul  bool
	root    int // 0 where there is none
	count   int // elements, of one part where there are parts
	inPlace bool
}

// reduces reports whether a kind has an operation.
func reduces(kind plan.Kind) bool {
	return kind == plan.AllReduce || kind == plan.Reduce || kind == plan.ReduceScatter || kind.Scans()
}

// lengths returns the lengths of a rank's input and output, or -1 for one that it does not have.
func (cl call) lengths(rank, size int) (send, recv int) {
	n := cl.count
	onRoot := func(n int) int {
		if rank == cl.root {
			return n
		}
		return -1
	}
	switch cl.kind {
	case plan.AllReduce, plan.Scan, plan.ExScan:
		return n, n
	case plan.Reduce:
		return n, onRoot(n)
	case plan.Broadcast:
		return onRoot(n), n
	case plan.AllGather:
		return n, n * size
	case plan.ReduceScatter:
		return n * size, n
	case plan.AllToAll:
		return n * size, n * size
	case plan.Gather:
		return n, onRoot(n * size)
	case plan.Scatter:
		return onRoot(n * size), n
	}
	return -1, -1
}

// origin describes the source of a run of count elements of a result: elements from index from of the input of rank,
// or, for rank -1, of the combined inputs of all ranks that belong to the result.
type origin struct{ rank, from int }

// origins returns the runs that form the result of rank, in their order.
func (cl call) origins(rank, size int) []origin {
	const all = -1
	n := cl.count
	if _, recv := cl.lengths(rank, size); recv < 0 {
		return nil
	}
	switch cl.kind {
	case plan.AllReduce, plan.Reduce, plan.Scan:
		return []origin{{all, 0}}
	case plan.ExScan:
		return []origin{{all, 0}}[:min(rank, 1)] // recv of rank 0 stays as it was
	case plan.Broadcast:
		return []origin{{cl.root, 0}}
	case plan.ReduceScatter:
		return []origin{{all, rank * n}}
	case plan.Scatter:
		return []origin{{cl.root, rank * n}}
	}
	parts := make([]origin, size)
	for r := range parts {
		parts[r] = origin{rank: r}
		if cl.kind == plan.AllToAll {
			parts[r].from = rank * n
		}
	}
	return parts
}

// codec converts numbers to elements of T and back.
type codec[T Element] struct {
	name   string
	of     func(float64) T // rounds to nearest even; integers wrap
	back   func(T) float64
	whole  bool // T is an integer type
	signed bool
}

func integers[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](name string, signed bool) codec[T] {
	return codec[T]{name, func(v float64) T { return T(int64(v)) }, func(v T) float64 { return float64(v) }, true, signed}
}

var (
	int8s    = integers[int8]("int8", true)
	uint8s   = integers[uint8]("uint8", false)
	int16s   = integers[int16]("int16", true)
	uint16s  = integers[uint16]("uint16", false)
	int32s   = integers[int32]("int32", true)
	uint32s  = integers[uint32]("uint32", false)
	int64s   = integers[int64]("int64", true)
	uint64s  = integers[uint64]("uint64", false)
	float32s = codec[float32]{"float32", func(v float64) float32 { return float32(v) },
		func(v float32) float64 { return float64(v) }, false, true}
	float64s = codec[float64]{"float64", func(v float64) float64 { return v }, func(v float64) float64 { return v }, false,
		true}
	float16s = codec[Float16]{"float16", float16Of, func(h Float16) float64 {
		v := math.Ldexp(float64(h&0x3ff), -24)
		if e := int(h >> 10 & 0x1f); e == 31 {
			if v = math.Inf(1); h&0x3ff != 0 {
				v = math.NaN()
			}
		} else if e > 0 {
			v = math.Ldexp(1+float64(h&0x3ff)/1024, e-15)
		}
		return math.Copysign(v, 1-2*float64(h>>15))
	}, false, true}
	bfloat16s = codec[BFloat16]{"bfloat16",
		func(v float64) BFloat16 { return BFloat16(math.Float32bits(float32(rounded(v, 8, -126))) >> 16) },
		func(b BFloat16) float64 { return float64(math.Float32frombits(uint32(b) << 16)) }, false, true}
	// No product of these has an imaginary part, which TestComplex has.
	complex64s = codec[complex64]{"complex64", func(v float64) complex64 { return complex(float32(v), 0) },
		func(v complex64) float64 { return float64(real(v)) }, false, false}
	complex128s = codec[complex128]{"complex128", func(v float64) complex128 { return complex(v, 0) },
		func(v complex128) float64 { return real(v) }, false, false}
)

// rounded returns the nearest number to v, with ties to even, that has the given number of binary digits and is normal
// from 2^least on.
func rounded(v float64, digits, least int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	_, e := math.Frexp(v) // |v| in [2^(e-1), 2^e)
	unit := math.Ldexp(1, max(e-1, least)-digits+1)
	return math.RoundToEven(v/unit) * unit
}

func float16Of(v float64) Float16 {
	sign := Float16(math.Float64bits(v) >> 63 << 15)
	v = math.Abs(rounded(v, 11, -14))
	switch {
	case math.IsNaN(v):
		return 0x7e00
	case v > 65504:
		return sign | 0x7c00
	case v < math.Ldexp(1, -14):
		return sign | Float16(math.Ldexp(v, 24))
	}
	f, e := math.Frexp(v)
	return sign | Float16(e-1+15)<<10 | Float16((2*f-1)*1024)
}

// period is the number of elements after which the inputs repeat: a prime, so that no chunk fits at the place of
// another chunk.
const period = 509

var noise = func() (a [period]float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range a {
		a[i] = float64(rng.IntN(28))
	}
	return a
}()

// factorOf returns the factor of a rank's input in a pre-multiplied sum.
func factorOf(rank int) float64 { return float64(1 + rank%3) }

// input returns element i of the input of a rank in call cl. The sums of nine ranks, and the products, are at most 256:
// bfloat16 has no more digits.
func (k codec[T]) input(cl call, rank, i int) float64 {
	v := noise[(i+37*rank)%period]
	switch {
	case cl.op == Prod:
		v = 1 + math.Mod(v, 2)
	case cl.premul:
		v = math.Mod(v, 9)
	case k.signed:
		v -= 13
	}
	return v
}

// combined returns element i of the combined inputs of all ranks.
func (k codec[T]) combined(cl call, size, i int) T {
	var v float64
	for r := range size {
		x := k.input(cl, r, i)
		if cl.premul {
			x *= factorOf(r)
		}
		switch {
		case r == 0:
			v = x
		case cl.op == Sum, cl.op == Avg:
			v += x
		case cl.op == Prod:
			v *= x
		case cl.op == Min:
			v = min(v, x)
		case cl.op == Max:
			v = max(v, x)
		}
	}
	if cl.op == Avg {
		if v = k.back(k.of(v)) / float64(size); k.whole {
			v = math.Trunc(v)
		}
	}
	return k.of(v)
}

// fill sets dst to the elements that o describes.
func (k codec[T]) fill(dst []T, cl call, size int, o origin) {
	for i := range min(len(dst), period) {
		if o.rank < 0 {
			dst[i] = k.combined(cl, size, o.from+i)
		} else {
			dst[i] = k.of(k.input(cl, o.rank, o.from+i))
		}
	}
	for done := period; done < len(dst); done *= 2 {
		copy(dst[done:], dst[:done])
	}
}
