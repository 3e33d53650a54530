//go:build linux

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// corePattern and coreUsesPID are the kernel's settings for core dumps: see core(5).
const (
	corePattern = "/proc/sys/kernel/core_pattern"
	coreUsesPID = "/proc/sys/kernel/core_uses_pid"
)

// coreHint returns where the kernel has put the core dump of a rank: a file, or the program that has received it; "" if
// that is not known.
func coreHint(c *child) string {
	pattern, err := os.ReadFile(corePattern)
	uses, _ := os.ReadFile(coreUsesPID)
	if err != nil {
		return ""
	}
	return describeCore(strings.TrimSpace(string(pattern)), strings.TrimSpace(string(uses)) == "1", c.dir, c.pid, c.began)
}

// describeCore is coreHint for these settings, of a process that was started in dir at the time began.
func describeCore(pattern string, usesPID bool, dir string, pid int, began time.Time) string {
	if command, piped := strings.CutPrefix(pattern, "|"); piped {
		program, _, _ := strings.Cut(strings.TrimSpace(command), " ")
		if filepath.Base(program) == "systemd-coredump" {
			return fmt.Sprintf("core dump: coredumpctl debug %d", pid)
		}
		return "core dump: handed to " + program
	}
	var name strings.Builder // as a pattern of filepath.Match
	named := false
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' || i+1 == len(pattern) {
			name.WriteByte(pattern[i])
			continue
		}
		switch i++; pattern[i] {
		case '%':
			name.WriteByte('%')
		case 'p', 'P':
			name.WriteString(strconv.Itoa(pid))
			named = true
		default: // the name of the program, a time, a user
			name.WriteByte('*')
		}
	}
	file := name.String()
	if usesPID && !named {
		file += "." + strconv.Itoa(pid)
	}
	in := file
	if !filepath.IsAbs(file) {
		in = filepath.Join(dir, file)
	}
	found, _ := filepath.Glob(in) // no file matches a malformed pattern
	for _, f := range slices.Backward(found) {
		// The kernel's clock of files is a few milliseconds behind.
		if info, err := os.Stat(f); err == nil && info.ModTime().After(began.Add(-time.Second)) {
			return "core dump: " + f
		}
	}
	if filepath.IsAbs(file) {
		return "core dump: " + file + ", which is not to be seen from here (the name is from " + corePattern + ")"
	}
	return fmt.Sprintf("core dump: %s in the folder to which the process had changed (it is not in %s)", file, dir)
}
