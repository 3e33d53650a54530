//go:build linux

package nethosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeNames writes the /etc/hosts of every host.
func (h *Hosts) writeNames() error {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for i, name := range h.names {
		fmt.Fprintf(&b, "%s %s\n", h.Addr(i), name)
		if h.networks[0].Mesh == nil {
			fmt.Fprintf(&b, "%s %s\n", h.Addr6In(0, i), name)
		}
	}
	return os.WriteFile(filepath.Join(h.dir, "hosts"), []byte(b.String()), 0o644)
}

// writeScripts writes the scripts that enter a host: they replace themselves by the program, under the same process id.
func (h *Hosts) writeScripts() error {
	var cases strings.Builder
	for i, name := range h.names {
		all := []string{name}
		for k := range h.networks {
			all = append(all, h.AddrIn(k, i).String(), h.Addr6In(k, i).String())
		}
		fmt.Fprintf(&cases, "%s) pid=%s ;;\n", strings.Join(all, "|"), h.hosts[i].pid())
	}
	// Options that launchers pass to ssh are skipped.
	const options = `while :; do case $1 in -[lpoiF]) shift 2 ;; -*) shift ;; *) break ;; esac; done
`
	for name, what := range map[string][2]string{
		"enter": {"", `"$@"`},
		"shell": {options, `/bin/sh -c "$*"`},
	} {
		text := fmt.Sprintf(`#!/bin/sh
%scase ${1#*@} in
%s*) echo "${0##*/}: there is no host \"$1\"" >&2; exit 255 ;;
esac
shift
exec nsenter -t $pid -n -u -i -m --wdns="$PWD" -- %s
`, what[0], cases.String(), what[1])
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o700); err != nil {
			return err
		}
	}
	return nil
}
