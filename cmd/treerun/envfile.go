//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/safefile"
)

// exports are the values of -x and --env-file.
type exports struct{ variables, files []string }

// define adds the flags.
func (e *exports) define(f *pflag.FlagSet) {
	f.StringArrayVarP(&e.variables, "export", "x", nil,
		"give the ranks an environment `VARIABLE`, as NAME=VALUE; NAME alone and patterns like 'NCCL_*' give ranks on "+
			"other hosts what treerun has (here, ranks have all of it; there, that host's own, and TREERUN_*)")
	f.StringArrayVar(&e.files, "env-file", nil,
		"take variables as for -x from the lines of this `FILE`; -x has precedence")
}

// export is one value of -x, or a line of a file.
type export struct {
	text     string
	where    string // for errors
	fromFile bool
}

// list returns all variables, in the order in which they are set.
func (e *exports) list() (all []export, err error) {
	for _, file := range e.files {
		if all, err = appendEnvFile(all, file); err != nil {
			return nil, err
		}
	}
	for _, x := range e.variables {
		all = append(all, export{text: x, where: "-x " + cmp.Or(x, `""`)})
	}
	return all, nil
}

// maxEnvFile is the maximum size of a file of --env-file, in bytes.
const maxEnvFile = 4 << 20

// appendEnvFile appends the lines of a file of environment variables. The format is that of docker's --env-file:
// NAME=VALUE, or a NAME alone, here also a pattern; the value is the rest of the line as it is, and # begins a line
// that does not count. A mark of UTF-8 at the beginning of the file, as some editors for Windows write it, does not
// count.
func appendEnvFile(all []export, file string) ([]export, error) {
	if file == os.DevNull { // the default in scripts that may have none
		return all, nil
	}
	text, err := safefile.Read(file, maxEnvFile)
	if err != nil {
		return nil, cmdline.Usagef("--env-file: %w", err)
	}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		number++
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("--env-file: %s, line %d", file, number)
		name, _, _ := strings.Cut(line, "=")
		if name == "" || strings.ContainsAny(name, " \t\"'") {
			return nil, cmdline.Usagef("%s: %.40q is not NAME=VALUE (hint: no quotes, no \"export\")", where, line)
		}
		all = append(all, export{line, where, true})
	}
	return all, nil
}

// inQuotes reports whether the value of a line is in quotes, which a shell would remove.
func (x *export) inQuotes() bool {
	_, value, _ := strings.Cut(x.text, "=")
	last := len(value) - 1
	return x.fromFile && last > 0 && strings.ContainsAny(value[:1], "\"'") && value[0] == value[last]
}
