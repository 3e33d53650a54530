//go:build cgo

package main

import "testing"

// A treerun whose standard output is closed says so: it would lose all output. One whose
// output goes to /dev/null, opened for reading as well as some programs do, does not.
func TestClosedStdout(t *testing.T) {
	for _, args := range [][]string{{"-np", "2", "echo", "lost"}, {"--version"}, {"topo", "--help"}} {
		l := launch(t, limited("exec >&-"), args...)
		l.ends(125)
		l.says("treerun: stdout is closed", "/dev/null")
	}
	l := launch(t, limited("exec 1<>/dev/null"), "-np", "2", "echo", "dropped")
	l.ends(0)
	l = launch(t, limited("exec <&-"), "-np", "2", "true")
	l.ends(0)
}
