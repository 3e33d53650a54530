//go:build linux

package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// Ranks that have the state are killed while they send it. The receivers keep their old contents, and the next epoch
// restores the state from the ranks that are left.
func TestSourceIsKilledInRestore(t *testing.T) {
	launcher, looper := chaosBinaries(t)
	program, tmp := install(t, filepath.Dir(looper), "restorer"), t.TempDir()
	before := listLeftovers(t, program, tmp)
	epochs := testutil.Count(10, 60)
	j := startJob(t, tmp, launcher, "-np", "4", "--on-failure", "respawn", "--max-restarts", strconv.Itoa(epochs), program,
		"-epochs", strconv.Itoa(epochs))
	code := j.wait(t)
	out := j.stdout.String()
	if done := strings.Count(out, "done "); code != 0 || done != 4 {
		t.Errorf("exit code %d, %d ranks are done\nstdout:\n%s\nstderr:\n%s", code, done, out, &j.stderr)
	}
	halfWay := len(regexp.MustCompile(`kept version -1 after: collective: Restore on rank \d: .*rank \d`).
		FindAllString(out, -1))
	if restored := strings.Count(out, "restored version"); halfWay == 0 || restored < epochs {
		t.Errorf("%d ranks restored the state, and %d kept none\n%s", restored, halfWay, out)
	}
	checkNothingLeft(t, program, tmp, before)
}
