package collective

import "unsafe"

// bytesOf returns the memory of s, elements without pointers. It shares it; the caller keeps s alive.
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// elementsOf returns b, which is aligned and not empty, as elements.
func elementsOf[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero)))
}

// elementOf returns the bytes of v, at the beginning.
func elementOf[T Number](v T) (b [8]byte) {
	*(*T)(unsafe.Pointer(&b)) = v
	return b
}
