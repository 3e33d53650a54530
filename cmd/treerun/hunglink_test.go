//go:build cgo && linux

package main

import (
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// A peer link on which copies hang ends the job that has found out, since its
// processes can no longer release memory, and none waits forever. The next job
// leaves the link out.
func TestHungPeerLink(t *testing.T) {
	t.Parallel()
	env := append(fakegpu.Start(t, "dgx1v/0-1"), "TREERUN_FAKE_GPU_BROKEN=0-1:hang", "XDG_CACHE_HOME="+t.TempDir())
	_, errs := runOnFakeHost(t, env, 125, deviceCalls+"allreduce")
	if !strings.Contains(errs, "the link of ranks 0 and 1 (GPU-") || !strings.Contains(errs, "start the job again") {
		t.Errorf("the first job printed\n%s", errs)
	}
	out, errs := runOnFakeHost(t, env, 0, deviceCalls+"allreduce")
	if !strings.Contains(out, "# Out of bounds values : 0 OK") ||
		!strings.Contains(errs, "is not used: the copy does not end") {
		t.Errorf("the second job printed\n%s\n%s", out, errs)
	}
}
