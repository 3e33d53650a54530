//go:build linux

package osys

import (
	"runtime"
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

// Yielder lets others run on this core. One goroutine uses it.
type Yielder struct {
	Within bool // those that are waited for are goroutines of this process
	yields uint
}

// goschedEvery is how often Yield lets goroutines of this process run instead:
// about once in a millisecond. That costs more than it seems, as the runtime
// wakes a thread to look for more work; and where ranks share cores that
// thread takes the core from the rank that has what we wait for.
const goschedEvery = 1024

// Yield lets another thread of the system run on this core, if one is ready, and
// now and then another goroutine.
func (y *Yielder) Yield() {
	if y.yields++; y.Within || y.yields%goschedEvery == 0 {
		runtime.Gosched()
		return
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
