//go:build linux

package bench

import (
	"math"

	"github.com/treerun/treerun/collective"
)

// period is the number of elements after which the data repeats: a prime, so that a chunk or a block in a wrong place
// is noticed.
const period = 1021

// pattern is the data of one period.
type pattern[T collective.Number] [period]T

// oracle computes the data of all ranks and the right results, for one element type, operation and number of ranks.
// Data are small integers, chosen such that every order of the additions gives the same bits, in every type: a wrong
// element is wrong, not rounded.
type oracle[T collective.Number] struct {
	size  int
	op    string
	total *pattern[T] // of op over all ranks; made when first needed
}

// input returns the input of rank r.
func (o *oracle[T]) input(r int) *pattern[T] {
	var p pattern[T]
	for i := range p {
		p[i] = fromInt[T](o.value(r, i))
	}
	return &p
}

// value returns the element i of rank r, as an integer.
func (o *oracle[T]) value(r, i int) int64 {
	v := int64(i%13*3+i/13*5+r*7)%13 + 1 // 1 to 13, and no two of 13 ranks the same
	limit := maxExact[T]()
	if limit == 0 {
		return v // integers wrap, and do so in any order
	}
	switch o.op {
	case "prod":
		// Powers of two are exact as long as they are in range, for which there
		// is a 2 for every 13 ranks, up to 14.
		switch {
		case v == 1 && r < 13*14:
			return 2
		case v == 2:
			return -1
		}
		return 1
	case "sum":
		if n := min(limit/int64(o.size), 13); n > 0 {
			return v%n + 1
		}
		if int64(r) < limit { // of this many ranks not all can add a value
			return 1
		}
		return 0
	case "avg":
		return o.aroundMean(r, i, min(limit/int64(o.size), 13))
	}
	return v
}

// aroundMean returns an input of Avg up to most: ranks give one more and one less than the mean in turns, so that the
// sum can be divided without a remainder.
func (o *oracle[T]) aroundMean(r, i int, limit int64) int64 {
	switch {
	case limit < 2:
		return limit
	case r%2 == 1:
		return o.aroundMean(0, i, limit) - 2
	}
	mean := int64(i%13*3+i/13*5)%13%(limit-1) + 1
	if r+1 < o.size {
		return mean + 1
	}
	return mean
}

// reduced returns the result of the operation over all ranks.
func (o *oracle[T]) reduced() *pattern[T] {
	if o.total != nil {
		return o.total
	}
	var p pattern[T]
	for i := range p {
		p[i] = o.combine(o.values(i))
	}
	o.total = &p
	return o.total
}

// values returns the element i of all ranks.
func (o *oracle[T]) values(i int) []int64 {
	list := make([]int64, o.size)
	for r := range list {
		list[r] = o.value(r, i)
	}
	return list
}

// combine computes one element of the result from the ranks' inputs, rank by rank: integers as T does, so that they
// wrap as T wraps, and floats as integers, which they are.
func (o *oracle[T]) combine(list []int64) T {
	v := list[0]
	for _, w := range list[1:] {
		switch o.op {
		case "sum", "avg":
			v += w
		case "prod":
			v *= w
		case "min":
			v = min(v, w)
		case "max":
			v = max(v, w)
		}
	}
	if o.op == "avg" {
		return mean[T](v, o.size)
	}
	return fromInt[T](v)
}

// maxExact returns the largest integer up to which T has all integers; 0 for the integer types, which wrap.
func maxExact[T collective.Number]() int64 {
	var zero T
	switch any(zero).(type) {
	case float32:
		return 1 << 24
	case float64:
		return 1 << 53
	case collective.Float16:
		return 1 << 11
	case collective.BFloat16:
		return 1 << 8
	}
	return 0
}

// fromInt converts an integer to T: exact in floats, wrapped in integers.
func fromInt[T collective.Number](v int64) T {
	var zero T
	switch any(zero).(type) {
	case collective.Float16:
		return T(float16Bits(float32(v)))
	case collective.BFloat16:
		return T(math.Float32bits(float32(v)) >> 16)
	}
	return T(v)
}

// mean divides a sum as Avg does: integers divide the wrapped sum and truncate toward zero. Sums of floats have no
// remainder: see around.
func mean[T collective.Number](sum int64, n int) T {
	if maxExact[T]() != 0 {
		return fromInt[T](sum / int64(n))
	}
	wrapped := T(sum)
	if wrapped < 0 {
		return T(int64(wrapped) / int64(n))
	}
	return T(uint64(wrapped) / uint64(n))
}

// float16Bits returns the binary16 of a number that it can represent exactly, in its normal range or 0.
func float16Bits(f float32) uint16 {
	x := math.Float32bits(f)
	if x<<1 == 0 {
		return 0
	}
	const bias, dropped = 127 - 15, 13
	return uint16(x>>31<<15 | (x&^(1<<31)-bias<<23)>>dropped)
}

// fill writes p repeatedly, beginning with its element at from.
func fill[T collective.Number](buf []T, p *pattern[T], from int) {
	for from %= period; len(buf) > 0; from = 0 {
		buf = buf[copy(buf, p[from:]):]
	}
}

// differences counts the elements of buf that differ from those that fill would write.
func differences[T collective.Number](buf []T, p *pattern[T], from int) int64 {
	var wrong int64
	for from %= period; len(buf) > 0; from = 0 {
		n := min(len(buf), period-from)
		for i, want := range p[from:][:n] {
			if buf[i] != want { // no pattern holds NaN
				wrong++
			}
		}
		buf = buf[n:]
	}
	return wrong
}
