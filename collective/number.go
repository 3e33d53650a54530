package collective

import (
	"fmt"
	"reflect"
	"strings"

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

// Element is the constraint of what reductions combine: a Number, a complex number or a bool. Complex numbers have Sum,
// Prod and Avg; their product is (ac-bd, ad+bc), each of these steps rounded. Bools have And, Or and Xor, and the same
// as logical operations; device calls do not support them. Another operation is an ErrArgument.
type Element interface {
	Number | ~complex64 | ~complex128 | ~bool
}

// dtypeOf returns the element type of T, 0 for one that cannot be moved. It does not allocate.
func dtypeOf[T any]() kernel.DType {
	switch any((*T)(nil)).(type) {
	case *float32: // the most frequent types
		return kernel.Float32
	case *float64:
		return kernel.Float64
	case *Float16:
		return kernel.Float16
	case *BFloat16:
		return kernel.BFloat16
	case *uint16:
		return kernel.Uint16
	}
	of := reflect.TypeFor[T]()
	if t := kernel.DTypeOf(of.Kind()); t != 0 && t != kernel.Uint16 {
		return t
	}
	if of == reflect.TypeFor[encodedByte]() {
		return kernel.Opaque
	}
	return digestOf(of)
}

// unmovable returns the reason for which dtypeOf is 0.
func unmovable[T any]() string { return unmovableOf(reflect.TypeFor[T]()) }

// unmovableOf returns why slices of a type cannot be moved.
func unmovableOf(of reflect.Type) string {
	if of.Size() == 0 {
		return fmt.Sprintf("elements of type %v have no size", of)
	}
	what := ""
	if path, t := pointerIn(of, ""); path != "" {
		what = fmt.Sprintf(": %s is of type %v", strings.TrimPrefix(path, "."), t)
	}
	return fmt.Sprintf("elements of type %v have no meaning in another process%s (hint: the calls for objects, such as "+
		"AllGatherObject, encode values)", of, what)
}

// pointerIn returns the first part of a value of type t that is a pointer or the like, and its type: its path, as it is
// written in Go, from the one to the value.
func pointerIn(t reflect.Type, path string) (string, reflect.Type) {
	switch t.Kind() {
	case reflect.Array:
		return pointerIn(t.Elem(), path+"[0]")
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); !plain(f.Type) {
				return pointerIn(f.Type, path+"."+f.Name)
			}
		}
	}
	return path, t
}

// unitOf returns how many elements of its DType one T is.
func unitOf[T any]() int {
	if dtypeOf[T]() < kernel.Opaque {
		return 1
	}
	return sizeOf[T]()
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

	// And, Or and Xor combine the bits of integers and bools; other elements are an ErrArgument. Device calls do not
	// support them.
	And
	Or
	Xor

	// LogicalAnd, LogicalOr and LogicalXor take every element but 0 as true, and give 0 or 1; on bools they are And, Or
	// and Xor. Other elements than integers and bools are an ErrArgument. Device calls do not support them.
	LogicalAnd
	LogicalOr
	LogicalXor
)

// The values equal those of package kernel.
var _ = [1]struct{}{}[Sum-Op(kernel.Sum)+LogicalXor-Op(kernel.LogicalXor)]

// String returns the name that the bench table prints: "sum", "prod", ...
func (o Op) String() string { return kernel.Op(o).String() }
