//go:build linux

package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// describe records the machine, the given version of treerun, and the versions of MPIs, each with the suffix of its
// command names and its display name.
func (r *record) describe(version string, mpis ...[2]string) {
	cpu := "unknown"
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, found := strings.Cut(string(info), "model name"); found {
		cpu = strings.TrimLeft(strings.SplitN(rest, "\n", 2)[0], "\t :")
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	r.fact("begun", "%s", time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	r.fact("machine", "%d cores, %s", runtime.NumCPU(), cpu)
	r.fact("kernel", "Linux %s", bytes.TrimSpace(release))
	r.fact("treerun", "%s, %s", version, runtime.Version())
	for _, mpi := range mpis {
		out, _ := exec.Command("mpirun."+mpi[0], "--version").Output()
		for word := range strings.FieldsSeq(string(out)) {
			if strings.Contains(word, ".") && strings.Trim(word, "0123456789.") == "" {
				r.fact(mpi[1], "%s", word)
				break
			}
		}
	}
}

// stopwatch measures the time of an operation, and the number of cores that others use during it: other processes, and
// other guests of the machine.
type stopwatch struct {
	begin      time.Time
	busy, ours float64
}

func startStopwatch() stopwatch { return stopwatch{time.Now(), busySeconds(), ownSeconds()} }

func (w stopwatch) seconds() float64 { return time.Since(w.begin).Seconds() }

// otherCores returns the average number of cores that others have used since the start. Child processes that have not
// been waited for yet count as others.
func (w stopwatch) otherCores() float64 {
	cores := ((busySeconds() - w.busy) - (ownSeconds() - w.ours)) / w.seconds()
	return math.Round(100*max(0, cores)) / 100
}

// busySeconds returns the CPU seconds that this machine has spent, including steal.
func busySeconds() float64 {
	text, _ := os.ReadFile("/proc/stat")
	f := strings.Fields(strings.SplitN(string(text), "\n", 2)[0])
	sum := 0.0
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		if i < len(f) {
			ticks, _ := strconv.ParseFloat(f[i], 64)
			sum += ticks / 100 // of USER_HZ
		}
	}
	return sum
}

// ownSeconds returns the CPU seconds of this process and of all that it has waited for.
func ownSeconds() float64 {
	sum := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return sum
}
