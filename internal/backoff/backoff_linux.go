package backoff

import (
	"syscall"
	"time"
)

// Yield lets another thread of the system run on this core, if one is ready.
func Yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }

// Nap leaves the core for d. time.Sleep takes a millisecond at least, as an idle runtime passes whole milliseconds to
// the kernel. A signal may end it early.
func Nap(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil)
}
