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
	f := &flags{treerun: filepath.Join(dir, "treerun"), worker: filepath.Join(dir, "chaos"),
		policies: []string{"shrink", "respawn", "restart"}, sizes: []int{2, 3, 4, 8},
		faults: []string{"kill", "kill", "stop", "exit", "panic", "segv", "guard"}}
	for seed := range uint64(testutil.Count(6, 30)) {
		k := newTrial(f, seed)
		k.run()
		if k.wrong != "" {
			t.Errorf("seed %d: %s: %s\n%s", seed, k, k.wrong, k.output())
		}
	}
}
