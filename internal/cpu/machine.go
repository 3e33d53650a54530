package cpu

import (
	"fmt"
	"io/fs"
	"strings"
)

// Files of a core, a hardware thread, in the kernel's folder of it: lists of the cores that share a part of the machine
// with it.
const (
	Siblings = "topology/thread_siblings_list" // a physical core
	L3       = "cache/index3/shared_cpu_list"
	Socket   = "topology/core_siblings_list"
)

// Folder returns the kernel's folder of a core, below the root folder.
func Folder(core int) string { return fmt.Sprintf("sys/devices/system/cpu/cpu%d/", core) }

// Read returns the line that is a file of a core, "" where there is none. system is the root folder.
func Read(system fs.FS, core int, file string) string {
	text, _ := fs.ReadFile(system, Folder(core)+file)
	return strings.TrimSpace(string(text))
}
