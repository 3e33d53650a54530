package record

import (
	"syscall"
	"unsafe"
)

// Clock returns the time of the clock that all processes of a host share, in nanoseconds since its boot.
func Clock() int64 {
	const monotonic = 1
	var t syscall.Timespec
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

// populate puts memory behind the whole pages of b.
func populate(b []byte) {
	const populateWrite = 23 // since Linux 5.14
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)/pageBytes*pageBytes),
		populateWrite)
}
