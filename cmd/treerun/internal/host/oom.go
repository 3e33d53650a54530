package host

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// outOfMemoryKills returns how many processes the kernel has killed for want of
// memory since it started, on the whole host, or -1 where it does not say.
func outOfMemoryKills() int {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return -1
	}
	return parseVMStat(string(text))
}

func parseVMStat(text string) int {
	for line := range strings.Lines(text) {
		if s, ok := strings.CutPrefix(line, "oom_kill "); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && n >= 0 {
				return n
			}
		}
	}
	return -1
}

// killHint tells what may have sent SIGKILL to a rank, from the kernel's count
// of such kills before and after.
func killHint(sig syscall.Signal, before, after int) string {
	switch {
	case sig != syscall.SIGKILL:
		return ""
	case before < 0 || after < 0:
		return "treerun did not send it; out of memory? (dmesg tells)"
	case after > before:
		return "out of memory: the kernel has killed a process for want of memory meanwhile (dmesg tells which)"
	}
	return "treerun did not send it, and the kernel has killed nothing for want of memory"
}
