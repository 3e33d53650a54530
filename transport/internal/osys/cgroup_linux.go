package osys

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// minOfGroups reads one file of this process's cgroup (version 2) and of all
// its parents, and returns the least value that parse finds above none; false
// when there is none or nothing can be read.
func minOfGroups(parse func(dir string) (int64, bool)) (least int64, ok bool) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	dir, found := unifiedGroup(string(groups))
	if !found {
		return 0, false
	}
	for ; ; dir = path.Dir(dir) {
		if v, found := parse(path.Join("/sys/fs/cgroup", dir)); found && (!ok || v < least) {
			least, ok = v, true
		}
		if dir == "/" {
			return least, ok
		}
	}
}

// unifiedGroup finds the version 2 group, the line "0::/path", in the text of
// /proc/self/cgroup.
func unifiedGroup(text string) (dir string, ok bool) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found && strings.HasPrefix(rest, "/") {
			return path.Clean(rest), true
		}
	}
	return "", false
}

// quotaCores returns the tightest CPU quota of our cgroups, in cores, rounded
// up; false when there is none.
func quotaCores() (int64, bool) {
	return minOfGroups(func(dir string) (int64, bool) { return parseQuota(readText(dir, "cpu.max")) })
}

// parseQuota reads cpu.max, "quota period" in microseconds or "max period",
// and returns the quota in cores, rounded up; false for none or nonsense.
func parseQuota(text string) (cores int64, ok bool) {
	var quota, period int32
	_, err := fmt.Sscanf(strings.TrimSpace(text)+"\n", "%d %d\n", &quota, &period)
	if err != nil || quota <= 0 || period <= 0 {
		return 0, false
	}
	return (int64(quota) + int64(period) - 1) / int64(period), true
}

// freeMemory returns how many bytes can still be allocated: what the kernel
// calls available, and not more than what the limits of our cgroups leave;
// false when neither is known.
func freeMemory() (bytes int64, ok bool) {
	bytes, ok = parseAvailable(readText("/proc", "meminfo"))
	left, limited := minOfGroups(func(dir string) (int64, bool) {
		return parseLeft(readText(dir, "memory.max"), readText(dir, "memory.current"))
	})
	if limited && (!ok || left < bytes) {
		return left, true
	}
	return bytes, ok
}

// parseAvailable finds MemAvailable, in kB, in the text of /proc/meminfo and
// returns it in bytes.
func parseAvailable(text string) (bytes int64, ok bool) {
	for line := range strings.Lines(text) {
		var kb int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); err == nil && kb >= 0 && kb < 1<<52 {
			return kb << 10, true
		}
	}
	return 0, false
}

// parseLeft returns what a memory limit leaves of itself, in bytes.
func parseLeft(limit, used string) (bytes int64, ok bool) {
	var l, u int64
	if _, err := fmt.Sscan(limit+" "+used, &l, &u); err != nil || l < 0 || u < 0 {
		return 0, false // "max", most often
	}
	return max(l-u, 0), true
}

// readText returns the text of a file; nothing when it cannot be read.
func readText(dir, name string) string {
	b, _ := os.ReadFile(path.Join(dir, name))
	return string(b)
}
