package sparse

import (
	"syscall"
	"testing"
	"unsafe"
)

// untouchable returns a slice of so many elements which nobody may read or write: it takes
// no memory.
func untouchable[T Number](t *testing.T, n int) []T {
	t.Helper()
	var zero T
	b, err := syscall.Mmap(-1, 0, n*int(unsafe.Sizeof(zero)), syscall.PROT_NONE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Fatalf("addresses for %d elements: %v", n, err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
