//go:build linux

package main

import (
	"path/filepath"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// Jobs whose processes are killed, stopped or crash at random times hang, lose contents and leave processes in no case.
// scripts/chaos.sh runs many more.
func TestJobsLiveOn(t *testing.T) {
	testutil.NotUnderRace(t, "treerun and its ranks are built without the detector")
	dir := t.TempDir()
	for _, command := range []string{"cmd/treerun", "scripts/chaos"} {
		file := filepath.Join(dir, filepath.Base(command))
		if err := testutil.Build("github.com/treerun/treerun/"+command, file); err != nil {
			t.Fatal(err)
		}
	}
	f := &flags{worker: filepath.Join(dir, "chaos"),
		place:    place{name: "host", treerun: filepath.Join(dir, "treerun")},
		policies: []string{"shrink", "respawn", "restart"}, sizes: []int{2, 3, 4, 8},
		faults: []string{"kill", "kill", "stop", "exit", "panic", "segv", "guard"}}
	for seed := range uint64(testutil.Count(6, 25)) {
		k, err := newTrial(f, seed)
		if err != nil {
			t.Fatal(err)
		}
		k.run()
		if err := k.end(); err != nil {
			t.Error(err)
		}
		if k.wrong != "" {
			t.Errorf("seed %d: %s: %s\n%s", seed, k, k.wrong, k.output())
		}
	}
}
