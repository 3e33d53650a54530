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

// FutexWait sleeps while *word == val, until a FutexWake of the word, a signal or the timeout, whichever is first. It
// reports whether the whole timeout passed. Callers check the word again in any case.
//
// It is a blocking system call: the Go scheduler gives the processor to other
// goroutines meanwhile.
func FutexWait(word *uint32, val uint32, timeout time.Duration) (timedOut bool) {
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(val),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	return errno == unix.ETIMEDOUT
}

// Place is where a process can be woken: a futex, or descriptors that become readable, -1 for none.
type Place struct {
	Word  *uint32 // nil: none
	Value uint32  // with another value in the word there is no reason to sleep
	FDs   [2]int
}

// nap is how long WaitAny sleeps where nothing can wake it: before Linux 5.16, and on both kinds of places.
const nap = time.Millisecond

// futexWaiter is struct futex_waitv.
type futexWaiter struct {
	value, word     uint64
	flags, reserved uint32
}

const (
	futex32    = 2   // flag: the word has 32 bits
	futexesMax = 128 // of one call
)

// WaitAny sleeps until a wake-up at one of several places, a signal, or for limit at most. It may end early.
func WaitAny(places []Place, limit time.Duration) {
	var words []futexWaiter
	var fds []unix.PollFd
	for _, p := range places {
		if p.Word != nil {
			words = append(words, futexWaiter{uint64(p.Value), uint64(uintptr(unsafe.Pointer(p.Word))), futex32, 0})
		}
		for _, fd := range p.FDs { // a negative one stands for none
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	if len(words) == len(places) && len(words) <= futexesMax {
		var now unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
		until := unix.NsecToTimespec(now.Nano() + int64(limit))
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&words[0])), uintptr(len(words)), 0,
			uintptr(unsafe.Pointer(&until)), unix.CLOCK_MONOTONIC, 0)
		if errno == 0 || errno == unix.EAGAIN || errno == unix.EINTR || errno == unix.ETIMEDOUT {
			return
		}
	}
	if len(words) > 0 {
		limit = min(limit, nap)
	}
	ts := unix.NsecToTimespec(int64(limit))
	_, _ = unix.Ppoll(fds, &ts, nil)
}

// FutexWake wakes one sleeper of the word, if there is one. It never blocks, so
// it does without the scheduler's bookkeeping.
func FutexWake(word *uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1)
}

// schedYield lets another thread of the system run on this core, if one is ready.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// getcpu returns the number of the core on which the calling thread runs, by a system call.
func getcpu() int {
	var core uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); errno != 0 {
		return -1
	}
	return int(core)
}
