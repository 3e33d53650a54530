package collective

import (
	"reflect"

	"github.com/treerun/treerun/internal/kernel"
)

// Float16 is an IEEE 754 binary16 number, as its bits. Reductions widen it to
// float32 and round to nearest even after each operation; what exceeds 65504
// by half a place or more is infinite.
type Float16 uint16

// BFloat16 is the upper half of an IEEE 754 binary32 number, as its bits.
// Reductions widen it to float32 and round to nearest even after each
// operation.
type BFloat16 uint16

// Number is an element type of the collectives: a number of Go's, or a type made of one; but not one made of uint16,
// which other libraries make their 16-bit floats of. int and uint are int64 and uint64 on machines of 64 bits, also for
// ranks that call them so. Sums and products of integers wrap; those of float32 and float64 round to nearest even, and
// become infinite where they overflow. Device calls do not have int16 and uint16.
type Number interface {
	~int8 | ~uint8 | ~int16 | uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~int | ~uint |
		~float32 | ~float64 | Float16 | BFloat16
}

// dtypeOf returns the element type of T. It does not allocate.
func dtypeOf[T Number]() kernel.DType {
	var zero T
	switch any(zero).(type) {
	case float32: // most often
		return kernel.Float32
	case Float16:
		return kernel.Float16
	case BFloat16:
		return kernel.BFloat16
	}
	return kernel.DTypeOf(reflect.TypeFor[T]().Kind())
}

// Op is a reduction operation.
type Op uint8

// The reduction operations. Each gives the same bits when its two operands
// change places, so that no result depends on which of two inputs was a rank's
// own; the order in which more than two are combined is the plan's.
//
// A NaN in any input makes the result NaN, and always the positive quiet NaN
// without payload (0x7FC00000 as float32), also in Min and Max. For these, -0
// is less than +0. Subnormal numbers count as they are. A communicator of one
// rank combines nothing: its results are its inputs, bit by bit.
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

	// And, Or and Xor combine the bits of integers; other elements are an ErrArgument. They are the
	// logical operations of 0 and 1. Device calls do not have them.
	And
	Or
	Xor
)

// The numbers are those of package kernel.
var _ = [1]struct{}{}[Sum-Op(kernel.Sum)+Xor-Op(kernel.Xor)]

// String returns the name that the bench table prints: "sum", "prod", ...
func (o Op) String() string { return kernel.Op(o).String() }
