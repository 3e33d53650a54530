package osys

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// PinThread ties the calling goroutine to the k-th core, modulo their number, of a list, which may have cores on which
// its thread may not run otherwise; if the list is empty, of those on which it may. restore, which the same goroutine
// calls once, gives the thread its cores back. After an error nothing has changed.
func PinThread(k int, among []int) (restore func(), err error) {
	runtime.LockOSThread()
	var own, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	if len(among) == 0 {
		for cpu := 0; cpu < 64*len(own); cpu++ {
			if own.IsSet(cpu) {
				among = append(among, cpu)
			}
		}
	}
	one.Set(among[k%len(among)])
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("sched_setaffinity: %w", err)
	}
	return func() {
		// It was allowed before; a thread that stays tied is slow, not wrong.
		_ = unix.SchedSetaffinity(0, &own)
		runtime.UnlockOSThread()
	}, nil
}
