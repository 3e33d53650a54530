package collective

import (
	"reflect"

	"github.com/treerun/treerun/internal/kernel"
)

// Float16 is an IEEE 754 binary16 number, stored as its bits. Reductions widen it to float32 and round to nearest even
// after each operation; values that exceed 65504 by at least half a unit in the last place become infinite.
type Float16 uint16

// BFloat16 is the upper half of an IEEE 754 binary32 number, stored as its bits. Reductions widen it to float32 and
// round to nearest even after each operation.
type BFloat16 uint16

// Number is the constraint of element types: Go's number types and types derived from them. Types derived from uint16
// are excluded, because other libraries use them for 16-bit floats. int and uint are int64 and uint64 on 64-bit
// machines, and match calls of other ranks with these types. Sums and products of integers wrap; those of float32 and
// float64 round to nearest even, and become infinite on overflow. Device calls do not support int16 and uint16.
type Number interface {
	~int8 | ~uint8 | ~int16 | uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~int | ~uint |
		~float32 | ~float64 | Float16 | BFloat16
}

// dtypeOf returns the element type of T. It does not allocate.
func dtypeOf[T Number]() kernel.DType {
	var zero T
	switch any(zero).(type) {
	case float32: // the most frequent types
		return kernel.Float32
	case float64:
		return kernel.Float64
	case Float16:
		return kernel.Float16
	case BFloat16:
		return kernel.BFloat16
	}
	return kernel.DTypeOf(reflect.TypeFor[T]().Kind())
}

// Op is a reduction operation.
type Op uint8

// The reduction operations. Each gives the same bits when its two operands are exchanged, so that no result depends on
// which of two inputs was a rank's own; the plan fixes the order in which more than two are combined.
//
// A NaN in any input makes the result NaN, always the positive quiet NaN without payload (0x7FC00000 as float32), also
// in Min and Max. In these, -0 is less than +0. Subnormal numbers are not flushed to zero. A communicator of one rank
// combines nothing: its results equal its inputs, bit by bit.
const (
	Sum Op = iota + 1
	Prod
	Min
	Max

	// Avg is the sum, divided by the number of ranks at the end. A sum of
	// integers wraps before it is divided, and the quotient is truncated toward
	// zero: the Avg of -3 and 0 is -1. A sum of floating-point numbers that
	// overflows stays infinite.
	Avg

	// And, Or and Xor combine the bits of integers; other elements are an ErrArgument. On 0 and 1 they are the logical
	// operations. Device calls do not support them.
	And
	Or
	Xor
)

// The values equal those of package kernel.
var _ = [1]struct{}{}[Sum-Op(kernel.Sum)+Xor-Op(kernel.Xor)]

// String returns the name that the bench table prints: "sum", "prod", ...
func (o Op) String() string { return kernel.Op(o).String() }
