package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// sweep builds a rank that compares what calls of every kind give: see scripts/faults.
func sweep(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "sweep")
	if err := testutil.Build("github.com/treerun/treerun/scripts/faults/testdata/sweep", file); err != nil {
		t.Fatal(err)
	}
	return file
}

// needRoot skips a test in which processes change their user.
func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		testutil.Need(t, testutil.Root, errors.New("this process is another user's"))
	}
}

// TestMemoryRefused: ranks that change their user after New, or forbid others to read their memory, send through slots:
// every call of all ranks gives what it should, from the one in which the system refuses first.
func TestMemoryRefused(t *testing.T) {
	needRoot(t)
	program := sweep(t)
	for _, args := range [][]string{
		{"4", "setuid"}, {"2", "setuid", "-who", "1"}, {"2", "nodump"}, {"4", "nodump", "-who", "0"},
	} {
		l := starts(t, nil, append([]string{"-np", args[0], program, "-after"}, args[1:]...)...)
		l.expect(int(args[0][0]-'0'), "is right")
		l.ends(0)
	}
}
