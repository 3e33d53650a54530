// Package kernels is not for users: it combines, scales, copies and searches arrays in the
// memory of a GPU: what package internal/kernel does on the host, with the same bits in every
// result. The kernels are written in the small common part of CUDA and C++ (*.cu) and need no
// header of the toolkit. Their PTX is part of this package, and the driver compiles it for its
// GPU. go generate makes it anew.
//
// The package knows neither ranks nor messages. Package collective and its
// internals use it; it imports package cuda, and the element types and operations of
// internal/kernel.
//
// # Arrays
//
// Arrays begin at any address that is a multiple of their element size, in
// memory that the stream's device can reach: its own, a peer's, or pinned memory.
// A result may be the very memory of a source; apart from that they do not
// overlap. The methods of a Set put work into a stream and return: errors of the
// work itself come from the stream. Nothing but the arrays is read or written.
package kernels

//go:generate ../../scripts/ptx.sh .

import "github.com/treerun/treerun/internal/kernel"

// dtype is what there is to know about the kernels of an element type.
type dtype struct {
	wrap string // whose sums and products have the same bits
	file string // with the kernels
	sign uint64 // the bits of an element that do not count against zero
}

var dtypes = [...]dtype{
	kernel.Int8:     {"uint8", "int8", 0},
	kernel.Uint8:    {"uint8", "int8", 0},
	kernel.Int32:    {"uint32", "int32", 0},
	kernel.Uint32:   {"uint32", "int32", 0},
	kernel.Int64:    {"uint64", "int64", 0},
	kernel.Uint64:   {"uint64", "int64", 0},
	kernel.Float16:  {"float16", "float16", 1 << 15},
	kernel.BFloat16: {"bfloat16", "bfloat16", 1 << 15},
	kernel.Float32:  {"float32", "float32", 1 << 31},
	kernel.Float64:  {"float64", "float64", 1 << 63},
}

// kernelName returns the name of a kernel that computes with elements: "sum" to
// "max", "multiply", "divide".
func kernelName(what string, d kernel.DType) string {
	name := d.String()
	switch what {
	case "sum", "prod", "multiply":
		name = dtypes[d].wrap
	}
	return "treerun_" + what + "_" + name
}
