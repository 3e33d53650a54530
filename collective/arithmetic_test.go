package collective

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// The claims of doc.go, number.go and calls.go about numbers, one by one. Every row is repeated many times in the
// message, so that vector loops and their remainders process it.

// numbers contains the inputs of the ranks, element by element, and the results expected.
type numbers[T Element] struct {
	name   string
	op     Op
	in     [][]T // by row, by rank
	out    []T   // by row
	factor []T   // by rank; nil: not pre-multiplied
}

// tryNumbers makes the AllReduce in every shape of plan and compares bits.
func tryNumbers[T Element](t *testing.T, n numbers[T]) {
	t.Helper()
	const times = 45
	size := len(n.in[0])
	for _, s := range localAlgorithms[:firstAlgorithms] {
		t.Run(fmt.Sprintf("%s/%T/ranks=%d/%v", n.name, *new(T), size, s), func(t *testing.T) {
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				var x []T
				for _, row := range n.in {
					x = append(x, row[c.in.Rank])
				}
				x = slices.Repeat(x, times)
				err := error(nil)
				if n.factor != nil {
					err = AllReducePreMul(t.Context(), c, x, x, n.factor[c.in.Rank])
				} else {
					err = AllReduce(t.Context(), c, x, x, n.op)
				}
				if err != nil {
					return err
				}
				for i := range x {
					row := i % len(n.out)
					if got, want := elementOf(x[i]), elementOf(n.out[row]); got != want {
						return fmt.Errorf("%v of %v: bits % x, want % x", n.op, n.in[row], got, want)
					}
				}
				return nil
			}, WithGraph(topo.UniformGraph(size)), WithAlgorithm(s))
		})
	}
}

// TestNaN: a NaN on any rank makes the result the positive quiet NaN without payload, with every operation, and does
// not change other elements.
func TestNaN(t *testing.T) {
	for _, op := range operations {
		for _, size := range []int{1, 2, 5} {
			if testutil.Race && (size > 2 || op == Prod || op == Min) {
				continue
			}
			nanRows(t, op, size, []float32{math.Float32frombits(0x7fc00000), math.Float32frombits(0xffc00123),
				math.Float32frombits(0x7f800001)}, 1)
			nanRows(t, op, size, []float64{math.Float64frombits(0x7ff8000000000000), math.Float64frombits(0xfff8000000000123),
				math.Float64frombits(0x7ff0000000000001)}, 1)
			nanRows(t, op, size, []Float16{0x7e00, 0xfe12, 0x7c01}, 0x3c00)
			nanRows(t, op, size, []BFloat16{0x7fc0, 0xffc1, 0x7f81}, 0x3f80)
		}
	}
}

// nanRows puts each of nans, the first of which is the canonical one, at each rank in turn, with ones elsewhere. A row
// of ones alone is added where the result is one.
func nanRows[T Element](t *testing.T, op Op, size int, nans []T, one T) {
	n := numbers[T]{name: "NaN in " + op.String(), op: op}
	for _, nan := range nans {
		for r := range size {
			row := slices.Repeat([]T{one}, size)
			row[r] = nan
			want := nans[0]
			if size == 1 {
				want = nan // one rank's input is the result, bit by bit
			}
			n.in, n.out = append(n.in, row), append(n.out, want)
		}
	}
	if op != Sum {
		n.in, n.out = append(n.in, slices.Repeat([]T{one}, size)), append(n.out, one)
	}
	tryNumbers(t, n)
}

// TestInfinitiesAndZeros: operations on infinities that give NaN, and zeros with
// signs, of which the negative one is less.
func TestInfinitiesAndZeros(t *testing.T) {
	inf, zero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	nan := math.Float32frombits(0x7fc00000)
	tryNumbers(t, numbers[float32]{name: "infinities", op: Sum, in: [][]float32{{inf, -inf}, {inf, 1}, {-inf, -1}},
		out: []float32{nan, inf, -inf}})
	tryNumbers(t, numbers[float32]{name: "infinities", op: Prod, in: [][]float32{{inf, 0}, {inf, -2}},
		out: []float32{nan, -inf}})
	tryNumbers(t, numbers[float32]{name: "zeros", op: Min, in: [][]float32{{0, zero}, {zero, 0}, {0, 0}},
		out: []float32{zero, zero, 0}})
	tryNumbers(t, numbers[float32]{name: "zeros", op: Max, in: [][]float32{{0, zero}, {zero, 0}, {zero, zero}},
		out: []float32{0, 0, zero}})
	tryNumbers(t, numbers[float32]{name: "subnormals", op: Sum, in: [][]float32{{1e-45, 1e-45}},
		out: []float32{math.Float32frombits(2)}})
	tryNumbers(t, numbers[Float16]{name: "subnormals", op: Sum, in: [][]Float16{{1, 2}, {0x03ff, 1}},
		out: []Float16{3, 0x0400}})
}

// TestIntegersWrap: sums and products wrap; an Avg divides the wrapped sum and
// truncates toward zero.
func TestIntegersWrap(t *testing.T) {
	tryNumbers(t, numbers[int8]{name: "wraps", op: Sum, in: [][]int8{{127, 1}, {-128, -1}, {100, 100}},
		out: []int8{-128, 127, -56}})
	tryNumbers(t, numbers[uint8]{name: "wraps", op: Sum, in: [][]uint8{{255, 1}, {200, 100}}, out: []uint8{0, 44}})
	tryNumbers(t, numbers[int32]{name: "wraps", op: Sum, in: [][]int32{{math.MaxInt32, 1}}, out: []int32{math.MinInt32}})
	tryNumbers(t, numbers[uint32]{name: "wraps", op: Prod, in: [][]uint32{{1 << 31, 2}, {1<<16 + 1, 1 << 16}},
		out: []uint32{0, 1 << 16}})
	tryNumbers(t, numbers[int64]{name: "wraps", op: Sum, in: [][]int64{{math.MaxInt64, 1}}, out: []int64{math.MinInt64}})
	tryNumbers(t, numbers[uint64]{name: "wraps", op: Prod, in: [][]uint64{{1 << 63, 2}, {math.MaxUint64, math.MaxUint64}},
		out: []uint64{0, 1}})
	tryNumbers(t, numbers[int8]{name: "truncates", op: Avg, in: [][]int8{{-3, 0}, {3, 0}, {100, 100}, {-128, -128}},
		out: []int8{-1, 1, -28, 0}})
	tryNumbers(t, numbers[uint8]{name: "truncates", op: Avg, in: [][]uint8{{3, 0}, {200, 100}}, out: []uint8{1, 22}})
	tryNumbers(t, numbers[int64]{name: "truncates", op: Avg, in: [][]int64{{-5, 0, 0}, {math.MaxInt64, 1, 0}, {7, 7, 6}},
		out: []int64{-1, math.MinInt64 / 3, 6}})
	tryNumbers(t, numbers[int32]{name: "wraps", factor: []int32{math.MaxInt32, 2}, in: [][]int32{{2, 1}}, out: []int32{0}})
}

// TestOverflow: floating-point sums that overflow are infinite, and so is their
// Avg.
func TestOverflow(t *testing.T) {
	inf32 := float32(math.Inf(1))
	for _, op := range []Op{Sum, Avg, Prod} {
		tryNumbers(t, numbers[float32]{name: "overflow", op: op, in: [][]float32{{math.MaxFloat32, math.MaxFloat32}},
			out: []float32{inf32}})
		tryNumbers(t, numbers[float64]{name: "overflow", op: op, in: [][]float64{{math.MaxFloat64, math.MaxFloat64}},
			out: []float64{math.Inf(1)}})
		tryNumbers(t, numbers[Float16]{name: "overflow", op: op, in: [][]Float16{{0x7bff, 0x7bff}}, out: []Float16{0x7c00}})
		tryNumbers(t, numbers[BFloat16]{name: "overflow", op: op, in: [][]BFloat16{{0x7f7f, 0x7f7f}},
			out: []BFloat16{0x7f80}})
	}
	// 65504 plus 16 exceeds it by half a unit in the last place, 65504 plus 15 does not.
	tryNumbers(t, numbers[Float16]{name: "greatest", op: Sum,
		in:  [][]Float16{{0x7bff, float16Of(16)}, {0x7bff, float16Of(15)}},
		out: []Float16{0x7c00, 0x7bff}})
}

// TestRounding: 16-bit numbers are rounded to nearest even after each operation,
// a mean once more, and a product before it is added.
func TestRounding(t *testing.T) {
	h, b := float16Of, bfloat16s.of
	tryNumbers(t, numbers[Float16]{name: "to even", op: Sum,
		in:  [][]Float16{{h(2048), h(1)}, {h(2048), h(3)}, {h(2050), h(1)}},
		out: []Float16{h(2048), h(2052), h(2052)}})
	tryNumbers(t, numbers[BFloat16]{name: "to even", op: Sum,
		in:  [][]BFloat16{{b(256), b(1)}, {b(256), b(3)}, {b(258), b(1)}},
		out: []BFloat16{b(256), b(260), b(260)}})
	tryNumbers(t, numbers[Float16]{name: "product", op: Prod,
		in: [][]Float16{{h(683), h(3)}, {h(2047), h(2047)}}, out: []Float16{h(2048), h(math.Inf(1))}})
	tryNumbers(t, numbers[Float16]{name: "mean", op: Avg,
		in:  [][]Float16{{h(1), h(0), h(0)}, {h(2048), h(0), h(1)}},
		out: []Float16{h(1. / 3), h(2048. / 3)}})
	tryNumbers(t, numbers[Float16]{name: "product before the sum", factor: []Float16{h(3), h(1)},
		in: [][]Float16{{h(683), h(1)}}, out: []Float16{h(2048)}}) // 2049 + 1 were 2050
	tryNumbers(t, numbers[BFloat16]{name: "product before the sum", factor: []BFloat16{b(3), b(1)},
		in: [][]BFloat16{{b(87), b(1)}}, out: []BFloat16{b(260)}}) // 261 is 260 or 262: even is 260; 260 + 1 is 260
}

// TestRoundingOfMany: many ranks' numbers, combined in one pass, are rounded
// after each operation too: in some order, not once at the end.
func TestRoundingOfMany(t *testing.T) {
	roundsEach(t, float16s, 11)
	roundsEach(t, bfloat16s, 8)
}

// roundsEach lets five ranks add numbers of which every order of rounded
// additions gives another sum than rounding once.
func roundsEach[T Element](t *testing.T, k codec[T], digits int) {
	const size = 5
	rows := 2
	if testutil.Race {
		rows = 1
	}
	rng := rand.New(rand.NewPCG(5, uint64(digits)))
	for found := 0; found < rows; {
		var x [size]float64
		exact := 0.0
		for r := range x {
			x[r] = k.back(k.of(float64(int(1)<<digits + rng.IntN(3<<digits))))
			exact += x[r]
		}
		sums := allOrders(k, x[:])
		if slices.Contains(sums, k.back(k.of(exact))) {
			continue
		}
		found++
		for _, s := range localAlgorithms[:firstAlgorithms] {
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				all := slices.Repeat([]T{k.of(x[c.in.Rank])}, 300)
				if err := AllReduce(t.Context(), c, all, all, Sum); err != nil {
					return err
				}
				for _, sum := range all {
					if !slices.Contains(sums, k.back(sum)) {
						return fmt.Errorf("%s, %v: the sum of %v is %v, want one of %v", k.name, s, x, k.back(sum), sums)
					}
				}
				return nil
			}, WithGraph(topo.UniformGraph(size)), WithAlgorithm(s))
		}
	}
}

// allOrders returns the possible results of adding all x, in any order, two numbers at a time, with each sum rounded.
func allOrders[T Element](k codec[T], x []float64) []float64 {
	sums := make([]map[float64]bool, 1<<len(x)) // by set of addends
	for set := 1; set < len(sums); set++ {
		sums[set] = make(map[float64]bool)
		if set&(set-1) == 0 {
			sums[set][x[bits.TrailingZeros(uint(set))]] = true
		}
		for part := (set - 1) & set; part > 0; part = (part - 1) & set {
			for a := range sums[part] {
				for b := range sums[set&^part] {
					sums[set][k.back(k.of(a+b))] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(sums[len(sums)-1]))
}
