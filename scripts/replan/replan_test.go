//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// The test's executable is the program of its jobs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-bytes" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A job gets new plans when the card of a host becomes slow. Its sums are right before and after, and it ends as usual.
func TestSlowCard(t *testing.T) {
	n := &network{bytes: 4 << 20, usual: 400, other: 50, treerun: filepath.Join(t.TempDir(), "treerun")}
	n.Hosts = nethosts.Up(t, hosts, nethosts.Options{
		Networks: []nethosts.Network{{Rates: []string{fmt.Sprintf("%dmbit", n.usual)}}}})
	if err := testutil.Build("github.com/treerun/treerun/cmd/treerun", n.treerun); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	j, err := n.start()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.calls(3, false); err != nil {
		t.Fatal(err)
	}
	if err := n.slow(true); err != nil {
		t.Fatal(err)
	}
	slow, change, err := j.calls(0, true)
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := j.calls(4, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v, then %v: %s", slow, after, change)
	if err := j.end(); err != nil {
		t.Error(err)
	}
}
