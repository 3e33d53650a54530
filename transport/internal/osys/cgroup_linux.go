package osys

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// leftOfGroups returns the smallest amount of memory that the limits of this process's cgroup (version 2) and of all
// its parents leave; false when there is none or nothing can be read.
func leftOfGroups() (least int64, ok bool) {
	dir, found := unifiedGroup(readText("/proc/self", "cgroup"))
	for ; found; dir = path.Dir(dir) {
		group := path.Join("/sys/fs/cgroup", dir)
		if v, is := parseLeft(readText(group, "memory.max"), readText(group, "memory.current")); is && (!ok || v < least) {
			least, ok = v, true
		}
		found = dir != "/"
	}
	return least, ok
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

// freeMemory returns how many bytes can still be allocated: the kernel's estimate of available memory, and not more
// than the limits of this process's cgroups leave; false when neither is known.
func freeMemory() (bytes int64, ok bool) {
	bytes, ok = parseAvailable(readText("/proc", "meminfo"))
	if left, limited := leftOfGroups(); limited && (!ok || left < bytes) {
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

// parseLeft returns the unused part of a memory limit, in bytes.
func parseLeft(limit, used string) (bytes int64, ok bool) {
	var l, u int64
	if _, err := fmt.Sscan(limit+" "+used, &l, &u); err != nil || l < 0 || u < 0 {
		return 0, false // usually "max"
	}
	return max(l-u, 0), true
}

// readText returns the text of a file; nothing when it cannot be read.
func readText(dir, name string) string {
	b, _ := os.ReadFile(path.Join(dir, name))
	return string(b)
}
