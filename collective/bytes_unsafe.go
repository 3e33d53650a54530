package collective

import (
	"reflect"
	"unsafe"

	"github.com/treerun/treerun/internal/kernel"
)

// elementsOf returns b, which is aligned and not empty, as elements.
func elementsOf[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero)))
}

// encodedOf returns the same memory as elements of messages with objects.
func encodedOf(b []byte) []encodedByte {
	return unsafe.Slice((*encodedByte)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// sizeOf returns the size of a T in bytes.
func sizeOf[T any]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// elementOf returns the bytes of v, in the first bytes of the array.
func elementOf[T Element](v T) (b kernel.Factor) {
	*(*T)(unsafe.Pointer(&b)) = v
	return b
}

// bytesOfSlice returns the elements of v, a slice without pointers, as bytes.
func bytesOfSlice(v reflect.Value) []byte {
	return unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*int(v.Type().Elem().Size()))
}
