package osys

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// PinThread ties the calling goroutine to the k-th core, modulo their number,
// of those on which its thread may run. restore, which the same goroutine calls
// once, gives the thread its cores back. After an error nothing has changed.
func PinThread(k int) (restore func(), err error) {
	runtime.LockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var one unix.CPUSet
	for cpu, left := 0, k%max(all.Count(), 1); left >= 0 && cpu < 64*len(all); cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		if left == 0 {
			one.Set(cpu)
		}
		left--
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("sched_setaffinity: %w", err)
	}
	return func() {
		// It was allowed before; a thread that stays tied is slow, not wrong.
		_ = unix.SchedSetaffinity(0, &all)
		runtime.UnlockOSThread()
	}, nil
}
