package job

import (
	"os"
	"runtime"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
)

// UsableCores returns the number of cores that the ranks of this host may use together, given by the affinity mask and
// the CPU quota of the control group. The runtime knows both, unless GOMAXPROCS was set by hand.
func UsableCores() int {
	if os.Getenv("GOMAXPROCS") != "" {
		return runtime.NumCPU()
	}
	return min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
}

// MachineID returns an ID of this machine if cores, the number of cores that a job may use, is the number of cores of
// the machine: hosts that are namespaces or containers of one machine then share the cores. If this host may use only
// some of the cores, or the kernel does not report them, the ID is "": such a host has its cores to itself.
func MachineID(cores int) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil || len(numbers.ParseList(strings.TrimSpace(string(online)), 1<<20)) != cores {
		return ""
	}
	return strings.TrimSpace(string(boot))
}

// SharedMachines returns a number for each rank that is the same for ranks that share cores: those of one host, and
// those of hosts whose machines have the same MachineID, except "". hosts and machines have the same length.
func SharedMachines(hosts []int, machines []string) []int {
	first := make(map[string]int) // host
	shared := make([]int, len(hosts))
	for r, h := range hosts {
		shared[r] = h
		if id := machines[r]; id != "" {
			if _, known := first[id]; !known {
				first[id] = h
			}
			shared[r] = first[id]
		}
	}
	return shared
}
