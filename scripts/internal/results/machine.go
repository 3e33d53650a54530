package results

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine returns what is to be said of the machine, and of treerun, whose version
// is given.
func Machine(version string) []Fact {
	cpu := "unknown"
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, found := strings.Cut(string(info), "model name"); found {
		cpu = strings.TrimLeft(strings.SplitN(rest, "\n", 2)[0], "\t :")
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return []Fact{
		{"machine", fmt.Sprintf("%d cores, %s", runtime.NumCPU(), cpu)},
		{"kernel", fmt.Sprintf("Linux %s", bytes.TrimSpace(release))},
		{"treerun", version + ", " + runtime.Version()},
	}
}

// Now is the time as pages write it.
func Now() string { return time.Now().UTC().Format("2006-01-02 15:04 UTC") }

// Watch measures how long something takes, and how many cores others use
// meanwhile: other processes, and other guests of the machine.
type Watch struct {
	begin      time.Time
	busy, ours float64
}

// StartWatch returns a watch that runs.
func StartWatch() Watch { return Watch{time.Now(), busy(), ours()} }

// Elapsed returns the time since the start.
func (w Watch) Elapsed() time.Duration { return time.Since(w.begin) }

// Away returns how many cores others have used since the start, on the average.
// Processes that this one has not waited for yet count as others.
func (w Watch) Away() float64 {
	return max(0, ((busy()-w.busy)-(ours()-w.ours))/w.Elapsed().Seconds())
}

// busy returns the CPU seconds that this machine has spent, steal included.
func busy() float64 {
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

// ours returns those of this process and of all that it has waited for.
func ours() float64 {
	sum := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return sum
}
