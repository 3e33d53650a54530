package cmdline

import (
	"runtime/debug"
	"strings"
)

// BuildVersion returns the note of the go command in this executable: a version, with the commit and whether files were
// changed, unless the command was run without that.
func BuildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return strings.Join(strings.Fields(info.Main.Version), "_")
}
