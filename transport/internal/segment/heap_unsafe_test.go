package segment

import "unsafe"

// Heap returns zero heap memory for a segment of n bytes, which begins at a page.
func Heap(n int) []byte {
	b := make([]byte, n+pageBytes)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % pageBytes
	return b[skip : skip+uintptr(n) : skip+uintptr(n)]
}
