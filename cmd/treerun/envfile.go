//go:build linux

package main

import (
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/safefile"
)

// maxEnvFile is the maximum size of a file of --env-file, in bytes.
const maxEnvFile = 4 << 20

// readEnvFile returns the lines of a file of environment variables as the values of -x. The format is that of docker's
// --env-file: NAME=VALUE, or a NAME alone; the value is the rest of the line as it is, and # begins a line that does
// not count.
func readEnvFile(file string) (exports []string, err error) {
	text, err := safefile.Read(file, maxEnvFile)
	if err != nil {
		return nil, cmdline.Usagef("--env-file: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line, "=")
		if name == "" || strings.ContainsAny(name, " \t*?[\"'") {
			return nil, cmdline.Usagef("--env-file: %s, line %d: %.40q is not NAME=VALUE (hint: no quotes, no \"export\")",
				file, number, line)
		}
		exports = append(exports, line)
	}
	return exports, nil
}
