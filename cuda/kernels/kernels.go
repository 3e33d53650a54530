// Package kernels combines, scales, copies and searches arrays in the memory of
// a GPU: what package internal/kernel does on the host, with the same
// bits in every result. The kernels are written in the small common part of CUDA
// and C++ (*.cu) and need no header of the toolkit. Their PTX is part of this
// package, and the driver compiles it for its GPU. go generate makes it anew.
//
// The package knows neither ranks nor messages. Package collective and its
// internals use it; it imports package cuda alone.
//
// # Arrays
//
// Arrays begin at any address that is a multiple of their element size, in
// memory that the stream's device can reach: its own, a peer's, or pinned memory.
// A result may be the very memory of a source; apart from that they do not
// overlap. The methods of a Set put work into a stream and return: errors of the
// work itself come from the stream. Nothing but the arrays is read or written.
package kernels

//go:generate go run ./compile .

import "fmt"

// DType is an element type. The numbers are those of package
// internal/kernel.
type DType uint8

// The element types. Float16 is IEEE 754 binary16, BFloat16 the upper half of a
// binary32.
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
	dtypeEnd // one past the last
)

// dtype is what there is to know about an element type.
type dtype struct {
	name string
	size int64
	wrap string // whose sums and products have the same bits
	file string // with the kernels
	sign uint64 // the bits of an element that do not count against zero
}

var dtypes = [dtypeEnd]dtype{
	Int8:     {"int8", 1, "uint8", "int8", 0},
	Uint8:    {"uint8", 1, "uint8", "int8", 0},
	Int32:    {"int32", 4, "uint32", "int32", 0},
	Uint32:   {"uint32", 4, "uint32", "int32", 0},
	Int64:    {"int64", 8, "uint64", "int64", 0},
	Uint64:   {"uint64", 8, "uint64", "int64", 0},
	Float16:  {"float16", 2, "float16", "float16", 1 << 15},
	BFloat16: {"bfloat16", 2, "bfloat16", "bfloat16", 1 << 15},
	Float32:  {"float32", 4, "float32", "float32", 1 << 31},
	Float64:  {"float64", 8, "float64", "float64", 1 << 63},
}

// Valid reports whether d is one of the element types.
func (d DType) Valid() bool { return d >= Int8 && d < dtypeEnd }

// Size returns the size of an element in bytes, 0 when d is not valid.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return int(dtypes[d].size)
}

// String returns the name of the type: "float32".
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Op is a reduction operation. The numbers are those of package
// internal/kernel, whose comment says what the operations do with
// overflow, NaN and zeros of either sign.
type Op uint8

// The operations.
const (
	Sum Op = iota + 1
	Prod
	Min
	Max
	Avg   // Sum, to be finished by Scale
	opEnd // one past the last
)

var ops = [opEnd]string{Sum: "sum", Prod: "prod", Min: "min", Max: "max", Avg: "avg"}

// Valid reports whether o is one of the operations.
func (o Op) Valid() bool { return o >= Sum && o < opEnd }

// String returns the name of the operation: "sum".
func (o Op) String() string {
	if !o.Valid() {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return ops[o]
}

// kernelName returns the name of a kernel that computes with elements: "sum" to
// "max", "multiply", "divide".
func kernelName(what string, d DType) string {
	name := dtypes[d].name
	switch what {
	case "sum", "prod", "multiply":
		name = dtypes[d].wrap
	}
	return "treerun_" + what + "_" + name
}
