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
		among = Cores()
	}
	one.Set(among[k%len(among)])
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("sched_setaffinity: %w", err)
	}
	return func() {
		widen(&own)
		runtime.UnlockOSThread()
	}, nil
}

// MoveThread moves the calling thread to a core. Then the kernel may move it among all its cores, as before.
func MoveThread(core int) error {
	restore, err := PinThread(0, []int{core})
	if err == nil {
		restore()
	}
	return err
}

// WidenThread lets the calling thread run on all cores of a list. If it cannot, it stays where it is.
func WidenThread(cores []int) {
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	_ = unix.SchedSetaffinity(0, &set)
}

// widen gives the calling thread the cores that it had before. A thread that was never bound has all cores of its
// cpuset, and gets those, too, that the cpuset has later.
func widen(before *unix.CPUSet) {
	var every, after unix.CPUSet
	for i := range every {
		every[i]--
	}
	_ = unix.SchedSetaffinity(0, &every)
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != *before {
		// It was allowed before; a thread that stays tied is slow, not wrong.
		_ = unix.SchedSetaffinity(0, before)
	}
}
