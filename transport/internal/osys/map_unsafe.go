//go:build linux

package osys

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Map maps size bytes of fd from an offset on, shared, for reading and writing.
func Map(fd, from, size int) ([]byte, error) {
	p, err := unix.MmapPtr(fd, int64(from), nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w (hint: see ulimit -v and vm.max_map_count, or close communicators)",
			size, err)
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// Blank releases the memory behind a mapping but keeps its addresses: from now on they are private zero pages. A late
// access by another goroutine then finds zeros where it would otherwise kill the process.
func Blank(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("mmap over %d bytes: %w", len(b), err)
	}
	return nil
}

// Unmap ends a mapping. Precondition: b is not used any more.
func Unmap(b []byte) error {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))); err != nil {
		return fmt.Errorf("munmap of %d bytes: %w", len(b), err)
	}
	return nil
}
