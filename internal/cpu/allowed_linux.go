package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Allowed returns the cores on which the calling thread may run, in order.
func Allowed() (all []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for core := range 64 * len(set) {
		if set.IsSet(core) {
			all = append(all, core)
		}
	}
	return all, nil
}
