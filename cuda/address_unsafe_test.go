//go:build cgo && linux

package cuda

import (
	"sync/atomic"
	"unsafe"
)

// addressOf returns the address of a Go slice.
func addressOf[T any](s []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }

// wordAt makes a word of memory that other processes and devices write, too.
func wordAt(p *uint32, a Addr) word { return word{(*atomic.Uint32)(unsafe.Pointer(p)), a} }

// wordIn returns the word at an offset in shared memory.
func wordIn(b []byte, offset int) word { return wordAt((*uint32)(unsafe.Pointer(&b[offset])), 0) }
