package osys

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// UsableCores returns the number of cores on which this process may run: the
// affinity mask, and not more than a cgroup's CPU quota rounded up. At least 1.
func UsableCores() int {
	n := runtime.NumCPU()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err == nil && set.Count() > 0 {
		n = set.Count()
	}
	if q, ok := quotaCores(); ok {
		n = int(min(int64(n), q))
	}
	return max(n, 1)
}
