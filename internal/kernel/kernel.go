// Package kernel combines two arrays of numbers, element by element: dst = a op b over bytes, for every element type
// and reduction operation of the collectives. It also combines many arrays at once, multiplies one by a number, copies
// past the caches, and finds the blocks of one that are not zero.
//
// It knows neither ranks nor messages and does not split work between goroutines. It is for package collective and its
// internals alone, and imports no other package of treerun.
//
// # Two implementations
//
// With cgo, arrays from some dozens of elements on run in C loops that the
// compiler vectorises for several instruction sets, of which the best that
// this processor has is used. Small arrays, and everything in a build without
// cgo, run in plain Go. Both give the same bits for every input, on every
// architecture; the tests compare them.
//
// # Arithmetic
//
//   - Integers wrap. And, Or and Xor, of their bits, are for integers and bools only, and so are LogicalAnd, LogicalOr
//     and LogicalXor, which give 0 or 1: every number but 0 is true.
//   - Float16 and BFloat16 are widened to float32, combined, and rounded to
//     nearest even after each operation. For Sum and Prod this is the
//     correctly rounded result: float32 has more than twice their digits.
//   - Every NaN that an operation gives is the positive quiet NaN without
//     payload (0x7FC00000 as float32), whatever NaN came in.
//   - Min and Max give NaN when either input is NaN. -0 is less than +0.
//   - So every operation is commutative bit by bit. Sum and Prod of floating-point
//     numbers are not associative: the order of the inputs counts.
//   - Subnormal numbers are neither read nor written as zero.
//   - Complex numbers are added and divided part by part. Their product is (ac-bd, ad+bc), each of these steps rounded.
//     There is no Min or Max of them.
//   - Avg adds; Scale divides by the number of addends at the end. Integers
//     are divided with truncation toward zero, after their sum has wrapped.
package kernel

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Work describes the operations of a call on the elements that it moves.
type Work struct {
	DType  DType
	Op     Op     // 0 where nothing is reduced
	Divide int    // from 2 on: the divisor of the result at the end
	Truths bool   // the result gets 0 or 1 for each element at the end
	Scale  bool   // the input of a rank is multiplied by Factor before anything else
	Factor Factor // of Scale

	// Func, unless nil, is in place of Op, for elements of Elem bytes each. DType is 0.
	Func Func
	Elem int
}

// Factor is one element, in its first bytes.
type Factor [16]byte

// Func is an operation of the caller. An interface holds a function without memory of its own.
type Func interface {
	// Combine combines elements of lower ranks in into with those of higher ones in from, and stores the result in into.
	Combine(into, from []byte)
}

// Size returns the size of an element in bytes.
func (w *Work) Size() int {
	if w.Func != nil {
		return w.Elem
	}
	return w.DType.Size()
}

// DType is an element type. Numbers are in the byte order of the machine.
type DType uint16

// The element types. Float16 is IEEE 754 binary16, BFloat16 the upper half of
// a binary32. GPUs have kernels for those up to Float64, and for complex numbers.
const (
	Int8 DType = iota + 1
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Int16
	Uint16
	Complex64
	Complex128
	Bool     // one byte, 0 or 1
	dtypeEnd // one past the last

	// Opaque is the first of the types of values that are no numbers: above it their number is a digest of the type.
	// Where they only move, their elements are bytes. Opaque itself is that of encoded objects. All are below DTypeEnd.
	Opaque   DType = 64
	DTypeEnd       = 1 << 15
)

var dtypes = [dtypeEnd]string{
	Int8:       "int8",
	Uint8:      "uint8",
	Int32:      "int32",
	Uint32:     "uint32",
	Int64:      "int64",
	Uint64:     "uint64",
	Float16:    "float16",
	BFloat16:   "bfloat16",
	Float32:    "float32",
	Float64:    "float64",
	Int16:      "int16",
	Uint16:     "uint16",
	Complex64:  "complex64",
	Complex128: "complex128",
	Bool:       "bool",
}

// sizes has a power of two of entries, so that indexing it needs no check.
var sizes = [16]uint8{
	Int8: 1, Uint8: 1, Int32: 4, Uint32: 4, Int64: 8, Uint64: 8,
	Float16: 2, BFloat16: 2, Float32: 4, Float64: 8, Int16: 2, Uint16: 2,
	Complex64: 8, Complex128: 16, Bool: 1,
}

// kinds are the element types of Go's numbers and bools. It has a power of two of entries, as sizes has.
var kinds = [32]DType{
	reflect.Int8: Int8, reflect.Uint8: Uint8, reflect.Int16: Int16, reflect.Uint16: Uint16, reflect.Int32: Int32,
	reflect.Uint32: Uint32, reflect.Int64: Int64, reflect.Uint64: Uint64, reflect.Float32: Float32,
	reflect.Float64: Float64, reflect.Complex64: Complex64, reflect.Complex128: Complex128, reflect.Bool: Bool,
	reflect.Int: Int32 + strconv.IntSize/64*(Int64-Int32), reflect.Uint: Uint32 + strconv.IntSize/64*(Uint64-Uint32),
}

// DTypeOf returns the element type of a kind of Go's numbers and bools, 0 for none.
func DTypeOf(k reflect.Kind) DType { return kinds[k&31] }

// DeviceDTypes yields the element types that GPUs have kernels for.
func DeviceDTypes(yield func(DType) bool) {
	for d := Int8; d < dtypeEnd; d++ {
		if d.OnDevice() && !yield(d) {
			return
		}
	}
}

// OnDevice reports whether GPUs have kernels for d.
func (d DType) OnDevice() bool { return d >= Int8 && d <= Float64 || d.Complex() }

// Valid reports whether d is one of the element types.
func (d DType) Valid() bool { return d >= Int8 && d < dtypeEnd }

// Size returns the size of an element in bytes, 0 when d is neither valid nor Opaque.
func (d DType) Size() int {
	if !d.Valid() {
		if d >= Opaque {
			return 1
		}
		return 0
	}
	return int(sizes[d&15])
}

// Float reports whether d is a type of floating-point numbers.
func (d DType) Float() bool { return d >= Float16 && d <= Float64 }

// Complex reports whether d is a type of complex numbers.
func (d DType) Complex() bool { return d == Complex64 || d == Complex128 }

// part returns the type of the parts of a complex number, and every other type as it is.
func (d DType) part() DType {
	switch d {
	case Complex64:
		return Float32
	case Complex128:
		return Float64
	}
	return d
}

// String returns the name of the type: "float32".
func (d DType) String() string {
	switch {
	case d.Valid():
		return dtypes[d]
	case d >= Opaque:
		return "bytes of " + d.Name()
	}
	return fmt.Sprintf("DType(%d)", uint16(d))
}

// typeNames has the names of the types that are Opaque and that this process has used.
var typeNames sync.Map

// SetName gives d, which is Opaque, a name in texts of this process.
func (d DType) SetName(name string) { typeNames.Store(d, name) }

// Name returns the name of a type. Of one that is Opaque it has the digest, too, which is all that is known of a type
// that only another process has used: see WithTypeNames.
func (d DType) Name() string {
	switch name, known := typeNames.Load(d); {
	case d == Opaque:
		return "an object"
	case known:
		return name.(string) + ", digest " + d.digest()
	case d > Opaque:
		return "a type with digest " + d.digest()
	}
	return d.String()
}

func (d DType) digest() string { return fmt.Sprintf("%04x", uint16(d)) }

// WithTypeNames returns text, which another process may have written, with the names of the types that only this one
// has used.
func WithTypeNames(text string) string {
	if strings.Contains(text, " digest ") {
		typeNames.Range(func(d, _ any) bool {
			text = strings.ReplaceAll(text, "a type with digest "+d.(DType).digest(), d.(DType).Name())
			return true
		})
	}
	return text
}

// Op is a reduction operation.
type Op uint8

// The operations. The comment of the package describes their treatment of overflow, NaN and zeros of either sign.
const (
	Sum Op = iota + 1
	Prod
	Min
	Max
	Avg        // Sum, to be finished by Scale
	And        // of bits, as Or and Xor: of integers only
	Or         //
	Xor        //
	LogicalAnd // of every element as a truth, as LogicalOr and LogicalXor: of integers only
	LogicalOr
	LogicalXor
	opEnd // one past the last
)

var ops = [opEnd]string{Sum: "sum", Prod: "prod", Min: "min", Max: "max", Avg: "avg", And: "and", Or: "or", Xor: "xor",
	LogicalAnd: "land", LogicalOr: "lor", LogicalXor: "lxor"}

// Valid reports whether o is one of the operations.
func (o Op) Valid() bool { return o >= Sum && o < opEnd }

// Takes reports whether o is one of the operations and has a result for elements of type d.
func (o Op) Takes(d DType) bool {
	switch {
	case !o.Valid():
		return false
	case d.Complex():
		return o == Sum || o == Prod || o == Avg
	case d == Bool:
		return o > Avg
	}
	return o <= Avg || !d.Float()
}

// on returns the operation and the type that give the result of o on elements of type d: an average is a sum at first,
// and a sum of complex numbers one of their parts.
func (o Op) on(d DType) (Op, DType) {
	if o == Avg {
		o = Sum
	}
	if o == Sum {
		d = d.part()
	}
	return o, d
}

// String returns the name of the operation: "sum".
func (o Op) String() string {
	if !o.Valid() {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return ops[o]
}
