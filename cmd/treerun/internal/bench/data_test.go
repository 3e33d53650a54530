//go:build linux

package bench

import (
	"fmt"
	"math"
	"testing"

	"github.com/treerun/treerun/collective"
)

// valueOf returns the number of a T.
func valueOf[T collective.Number](v T) float64 {
	switch v := any(v).(type) {
	case collective.Float16:
		exponent, fraction := int(v>>10&31), float64(v&1023)
		sign := 1 - 2*float64(v>>15)
		if exponent == 0 {
			return sign * math.Ldexp(fraction, -24)
		}
		return sign * math.Ldexp(1024+fraction, exponent-25)
	case collective.BFloat16:
		return float64(math.Float32frombits(uint32(v) << 16))
	}
	return float64(v)
}

// The data of floats have no rounding to hide behind: every partial result, in every order, is an integer that the type
// has. So the oracle may compute with integers.
func TestExact(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 19, 64, 255, 256, 257, 300, 2047, 2500} {
		for _, op := range allOps {
			exactData[float32](t, op, n)
			exactData[float64](t, op, n)
			exactData[collective.Float16](t, op, n)
			exactData[collective.BFloat16](t, op, n)
		}
	}
}

func exactData[T collective.Number](t *testing.T, op string, n int) {
	t.Helper()
	o := &oracle[T]{size: n, op: op}
	for i := 0; i < period; i += 41 {
		var sum, twos, least, most float64 = 0, 0, math.Inf(1), math.Inf(-1)
		sign := 1.0
		for r := range n {
			v := o.value(r, i)
			if got := valueOf(fromInt[T](v)); got != float64(v) {
				t.Fatalf("%T, %s, rank %d: %d has become %g", *new(T), op, r, v, got)
			}
			sum += float64(v)
			twos += math.Log2(math.Abs(float64(max(v, -v))))
			if v < 0 {
				sign = -sign
			}
			least, most = min(least, float64(v)), max(most, float64(v))
		}
		want := map[string]float64{"sum": sum, "prod": sign * math.Exp2(twos), "min": least, "max": most,
			"avg": sum / float64(n)}[op]
		if op == "avg" && n > int(maxExact[T]()) {
			continue // checked with sum; jobs of that many ranks do not happen
		}
		if got := valueOf(o.combine(o.values(i))); got != want {
			t.Fatalf("%T, %s over %d ranks, element %d: %g, want %g", *new(T), op, n, i, got, want)
		}
		if (op == "sum" || op == "avg") && (sum > float64(maxExact[T]()) || least < 0) {
			t.Fatalf("%T, %s over %d ranks: the sum %g is not exact", *new(T), op, n, sum)
		}
		if op == "prod" && twos > 14 {
			t.Fatalf("%T, prod over %d ranks: 2^%g is out of range", *new(T), n, twos)
		}
	}
}

// Integers wrap as Go's do, and their mean is that of the wrapped sum.
func TestWrapped(t *testing.T) {
	o := &oracle[int8]{size: 40, op: "sum"}
	avg := &oracle[int8]{size: 40, op: "avg"}
	prod := &oracle[uint32]{size: 40, op: "prod"}
	wrapped := false
	for i := range period {
		var sum int8
		product := uint32(1)
		for r := range 40 {
			wrapped = wrapped || sum > 127-int8(o.value(r, i))
			sum += int8(o.value(r, i))
			product *= uint32(prod.value(r, i))
		}
		if o.reduced()[i] != sum || avg.reduced()[i] != sum/40 || prod.reduced()[i] != product {
			t.Fatalf("element %d: sum %d, mean %d, product %d; want %d, %d, %d", i, o.reduced()[i],
				avg.reduced()[i], prod.reduced()[i], sum, sum/40, product)
		}
	}
	if !wrapped {
		t.Error("no sum wrapped: the test shows nothing")
	}
}

// Errors of collectives are detected: a single element, a shift, a rank that is left out or counted twice.
func TestDifferences(t *testing.T) {
	for _, op := range allOps {
		for _, n := range []int{2, 3, 8} {
			t.Run(fmt.Sprintf("%s/%d", op, n), func(t *testing.T) {
				differs[float32](t, op, n)
				differs[collective.BFloat16](t, op, n)
				differs[int32](t, op, n)
			})
		}
	}
}

func differs[T collective.Number](t *testing.T, op string, n int) {
	o := &oracle[T]{size: n, op: op}
	buf := make([]T, 3*period)
	fill(buf, o.reduced(), 100)
	if wrong := differences(buf, o.reduced(), 100); wrong != 0 {
		t.Fatalf("%d of the right elements count as wrong", wrong)
	}
	for _, i := range []int{0, 1, period - 101, period - 100, 2 * period, len(buf) - 1} {
		right := buf[i]
		buf[i] = fromInt[T](99)
		if wrong := differences(buf, o.reduced(), 100); wrong != 1 {
			t.Errorf("element %d is wrong, counted %d", i, wrong)
		}
		buf[i] = right
	}
	for _, shift := range []int{1, 2, 4, 8, 13, 16, 64, 512, 1000} {
		if wrong := differences(buf, o.reduced(), 100+shift); wrong == 0 && op != "max" && op != "min" {
			t.Errorf("a shift by %d was not seen", shift)
		}
	}
	if op == "min" || op == "max" || op == "avg" {
		return // a rank that is left out need not matter, or not in all elements
	}
	for r := range n {
		var without, twice pattern[T]
		for i := range period {
			product, sum := int64(1), int64(0)
			for q := range n {
				if q != r {
					product *= o.value(q, i)
					sum += o.value(q, i)
				}
			}
			v := o.value(r, i)
			without[i], twice[i] = fromInt[T](sum), fromInt[T](sum+2*v)
			if op == "prod" {
				without[i], twice[i] = fromInt[T](product), fromInt[T](product*v*v)
			}
		}
		if differences(without[:], o.reduced(), 0) < period/20 || differences(twice[:], o.reduced(), 0) < period/20 {
			t.Errorf("rank %d left out or counted twice is hardly seen", r)
		}
	}
}

// The inputs of two ranks are different, so that a block of the wrong rank is noticed.
func TestInputsDiffer(t *testing.T) {
	o := &oracle[float32]{size: 8, op: "sum"}
	for a := range 8 {
		for b := range a {
			if differences(o.input(a)[:], o.input(b), 0) < period/2 {
				t.Errorf("ranks %d and %d have almost the same input", a, b)
			}
		}
	}
}
