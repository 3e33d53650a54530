package kernel

import "unsafe"

type fixed interface {
	byte | int8 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// aligned reports whether b begins where an element of type dt may begin.
func aligned(dt DType, b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))&uintptr(dt.Size()-1) == 0
}

// as returns the memory of b as elements. Precondition: b is aligned for T and
// holds whole elements.
func as[T fixed](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// bytesOf returns the memory of x.
func bytesOf(x []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*8)
}
