//go:build cgo && linux

package kernel

// #cgo CFLAGS: -O3
// #cgo noescape treerun_kernel_reduce
// #cgo nocallback treerun_kernel_reduce
// #cgo noescape treerun_kernel_reduce_many
// #cgo nocallback treerun_kernel_reduce_many
// #cgo noescape treerun_kernel_pieces
// #cgo nocallback treerun_kernel_pieces
// #cgo noescape treerun_kernel_multiply
// #cgo nocallback treerun_kernel_multiply
// #cgo noescape treerun_kernel_divide
// #cgo nocallback treerun_kernel_divide
// #cgo noescape treerun_kernel_stream
// #cgo nocallback treerun_kernel_stream
// #cgo noescape treerun_kernel_nonzero
// #cgo nocallback treerun_kernel_nonzero
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
	C.treerun_kernel_reduce(C.int(l), C.int(op), C.int(dt), pointer(dst), pointer(a), pointer(b),
		C.size_t(len(dst)/dt.Size()))
}

// maxNative is the largest number of sources of one call of reduceManyNative. They are arguments, not an array: memory
// that is passed to C may not hold Go pointers.
const maxNative = 8

// operands returns srcs as arguments of a call of C that writes dst, and whether it
// writes past the caches.
func operands(dst []byte, srcs [][]byte, stream bool) (s [maxNative]*C.uint8_t, past C.int) {
	for i, src := range srcs {
		raceRead(src)
		s[i] = pointer(src)
	}
	raceWrite(dst)
	if stream {
		past = 1
	}
	return s, past
}

// reduceManyNative is ReduceMany in C, for 2 to maxNative sources. op is not
// Avg.
func reduceManyNative(l level, op Op, dt DType, dst []byte, srcs [][]byte, stream bool) {
	s, past := operands(dst, srcs, stream)
	C.treerun_kernel_reduce_many(C.int(l), C.int(op), C.int(dt), past, pointer(dst), C.size_t(len(dst)/dt.Size()),
		C.int(len(srcs)),
		s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
}

// piecesNative is Pieces.Run in C, for up to maxNative sources.
func piecesNative(l level, op Op, dt DType, dst []byte, srcs [][]byte, list []uint64, stream bool) {
	s, past := operands(dst, srcs, stream)
	C.treerun_kernel_pieces(C.int(l), C.int(op), C.int(dt), past, pointer(dst), words(list), C.size_t(len(list)),
		s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
}

// multiplyNative is ScaleCopy in C.
func multiplyNative(l level, dt DType, dst, src []byte, factor Factor) {
	raceRead(src)
	raceWrite(dst)
	C.treerun_kernel_multiply(C.int(l), C.int(dt), pointer(dst), pointer(src), C.size_t(len(dst)/dt.Size()),
		pointer(factor[:]))
}

// divideNative is Scale in C.
func divideNative(l level, dt DType, dst []byte, n int) {
	raceRead(dst)
	raceWrite(dst)
	C.treerun_kernel_divide(C.int(l), C.int(dt), pointer(dst), C.size_t(len(dst)/dt.Size()), C.int64_t(n))
}

// streamNative copies past the caches.
func streamNative(l level, dst, src []byte) {
	raceRead(src)
	raceWrite(dst)
	C.treerun_kernel_stream(C.int(l), pointer(dst), pointer(src), C.size_t(len(dst)))
}

// nonZeroNative is NonZero in C. bits are 0 before.
func nonZeroNative(l level, src []byte, block int, mask uint64, bits []uint64) bool {
	raceRead(src)
	raceWrite(BytesOf(bits))
	return C.treerun_kernel_nonzero(C.int(l), pointer(src), C.size_t(len(src)), C.size_t(block), C.uint64_t(mask),
		words(bits)) != 0
}

func words(b []uint64) *C.uint64_t {
	return (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(b)))
}

// pointer is typed: cgo inspects what an untyped pointer points to, on every
// call.
func pointer(b []byte) *C.uint8_t {
	return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b)))
}
