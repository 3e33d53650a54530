package kernel

import "unsafe"

type fixed interface {
	byte | int8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// aligned reports whether an element of type dt may begin at a, b and c.
func aligned(dt DType, a, b, c *byte) bool {
	all := uintptr(unsafe.Pointer(a)) | uintptr(unsafe.Pointer(b)) | uintptr(unsafe.Pointer(c))
	return all&uintptr(dt.part().Size()-1) == 0
}

// base returns the address of the first byte of b.
func base(b []byte) *byte { return unsafe.SliceData(b) }

// from returns n elements from p on.
func from[T fixed](p *T, n int) []T { return unsafe.Slice(p, n) }

// to returns the T that begins at p. Precondition: p is aligned for T.
func to[T fixed](p *byte) *T { return (*T)(unsafe.Pointer(p)) }

// as returns the memory of b as elements. Precondition: b is aligned for T and
// holds whole elements.
func as[T fixed](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// BytesOf returns the memory of s, elements without pointers. It shares it; the caller keeps s alive.
func BytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// plain returns x, and for every NaN the same one. A comparison of bits takes
// no branch, one of numbers two.
func plain[T float](x T) T {
	if unsafe.Sizeof(x) == 4 {
		b := *(*uint32)(unsafe.Pointer(&x))
		if b&(1<<31-1) > infinity32 {
			b = nan32
		}
		return *(*T)(unsafe.Pointer(&b))
	}
	b := *(*uint64)(unsafe.Pointer(&x))
	if b&(1<<63-1) > infinity64 {
		b = nan64
	}
	return *(*T)(unsafe.Pointer(&b))
}
