package kernel

import "unsafe"

type fixed interface {
	byte | int8 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// aligned reports whether a, b and c all begin where an element of type dt may
// begin.
func aligned(dt DType, a, b, c []byte) bool {
	return (address(a)|address(b)|address(c))&uintptr(dt.Size()-1) == 0
}

// same reports whether a and b begin at the same byte.
func same(a, b []byte) bool { return address(a) == address(b) }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// as returns the memory of b as elements. Precondition: b is aligned for T and
// holds whole elements.
func as[T fixed](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), uint(len(b))/uint(unsafe.Sizeof(zero)))
}

// bytesOf returns the memory of x.
func bytesOf(x []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*8)
}
