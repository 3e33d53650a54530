package osys

import "unsafe"

// wordOf returns the first word of a mapping, which begins at a page.
func wordOf(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(&b[0])) }
