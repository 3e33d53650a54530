package sparse

import "unsafe"

// bytesOf returns the memory of s. It shares it; the caller keeps s alive.
func bytesOf[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// sharing says how two buffers share memory: not at all, wholly, or in part.
func sharing(a, b []byte) (same, partly bool) {
	if len(a) == 0 || len(b) == 0 {
		return false, false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	if p == q && len(a) == len(b) {
		return true, false
	}
	return false, p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}
