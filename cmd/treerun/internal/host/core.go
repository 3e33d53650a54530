//go:build linux

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// corePattern and coreUsesPID are the kernel's settings for core dumps: see core(5).
const (
	corePattern = "/proc/sys/kernel/core_pattern"
	coreUsesPID = "/proc/sys/kernel/core_uses_pid"
)

// coreHint returns where the kernel has put the core dump of process pid, which ran in folder dir: a file, or the
// program that has received it; "" if that is not known.
func coreHint(dir string, pid int) string {
	pattern, err := os.ReadFile(corePattern)
	uses, _ := os.ReadFile(coreUsesPID)
	if err != nil {
		return ""
	}
	return describeCore(strings.TrimSpace(string(pattern)), strings.TrimSpace(string(uses)) == "1", dir, pid)
}

// describeCore is coreHint for these settings.
func describeCore(pattern string, usesPID bool, dir string, pid int) string {
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
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	if found, err := filepath.Glob(file); err == nil && len(found) > 0 {
		file = found[len(found)-1]
	}
	return "core dump: " + file
}
