package collective

import (
	"github.com/treerun/treerun/collective/internal/kernel"
)

// Float16 is an IEEE 754 binary16 number, as its bits.
type Float16 uint16

// BFloat16 is the upper half of an IEEE 754 binary32 number, as its bits.
type BFloat16 uint16

// Number is an element type of the collectives.
type Number interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64 | float32 | float64 | Float16 | BFloat16
}

// dtypeOf returns the element type of T. It does not allocate.
func dtypeOf[T Number]() kernel.DType {
	var zero T
	switch any(zero).(type) {
	case int8:
		return kernel.Int8
	case uint8:
		return kernel.Uint8
	case int32:
		return kernel.Int32
	case uint32:
		return kernel.Uint32
	case int64:
		return kernel.Int64
	case uint64:
		return kernel.Uint64
	case float32:
		return kernel.Float32
	case float64:
		return kernel.Float64
	case Float16:
		return kernel.Float16
	default:
		return kernel.BFloat16
	}
}

// Op is a reduction operation.
type Op uint8

// The reduction operations. The comment of the package says how they round,
// wrap and treat NaN.
const (
	Sum  = Op(kernel.Sum)
	Prod = Op(kernel.Prod)
	Min  = Op(kernel.Min)
	Max  = Op(kernel.Max)
	Avg  = Op(kernel.Avg) // the sum, divided by the number of ranks
)

// String returns the name that the bench table prints: "sum", "prod", ...
func (o Op) String() string { return kernel.Op(o).String() }

func (o Op) valid() bool { return o >= Sum && o <= Avg }
