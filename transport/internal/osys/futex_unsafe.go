//go:build linux

package osys

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2), without the private flag: the word is shared by
// processes.
const (
	futexWait = 0
	futexWake = 1
)

// FutexWait sleeps while *word == val, until a FutexWake of the word, a signal
// or the timeout, whichever is first. It reports whether the whole timeout
// passed. Callers look at the word again in any case.
//
// It is a blocking system call: the Go scheduler gives the processor to other
// goroutines meanwhile.
func FutexWait(word *uint32, val uint32, timeout time.Duration) (timedOut bool) {
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(val),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	return errno == unix.ETIMEDOUT
}

// FutexWake wakes one sleeper of the word, if there is one. It never blocks, so
// it does without the scheduler's bookkeeping.
func FutexWake(word *uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1)
}

// Yield lets another thread of the system run on this core, if one is ready.
func Yield() {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
