//go:build cgo

package kernel

// #cgo CFLAGS: -O3
// #cgo noescape treerun_kernel_reduce
// #cgo nocallback treerun_kernel_reduce
// #cgo noescape treerun_kernel_scale
// #cgo nocallback treerun_kernel_scale
// #include "kernel.h"
import "C"

import "unsafe"

// best is the best level of this processor.
var best = level(C.treerun_kernel_best())

// reduceNative is Reduce in C at a level from levelPortable to best. op is not
// Avg.
func reduceNative(l level, op Op, dt DType, dst, a, b []byte) {
	raceRead(a)
	raceRead(b)
	raceWrite(dst)
	C.treerun_kernel_reduce(C.int(l), C.int(op), C.int(dt), pointer(dst), pointer(a), pointer(b), C.size_t(len(dst)/dt.Size()))
}

// scaleNative is Scale in C, for floating-point types.
func scaleNative(l level, dt DType, dst []byte, n int) {
	raceRead(dst)
	raceWrite(dst)
	C.treerun_kernel_scale(C.int(l), C.int(dt), pointer(dst), C.size_t(len(dst)/dt.Size()), C.int64_t(n))
}

// pointer is typed: cgo inspects what an untyped pointer points to, on every
// call.
func pointer(b []byte) *C.uint8_t {
	return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b)))
}
