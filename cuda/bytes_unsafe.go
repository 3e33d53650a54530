package cuda

import "unsafe"

// sizeOf returns the size of a T in bytes.
func sizeOf[T Number]() int64 { return int64(unsafe.Sizeof(*new(T))) }

// bytesOf returns the memory of s as bytes.
func bytesOf[T Number](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(sizeOf[T]()))
}

// ofBytes returns b, which is aligned for a T, as n elements.
func ofBytes[T Number](b []byte, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
