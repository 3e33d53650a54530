//go:build cgo && linux

package driver

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// TestCurrentContext runs testdata/current.c, a separate library in the same process as ours.
func TestCurrentContext(t *testing.T) {
	env := fakegpu.Start(t, "dgx1v/0-1")
	program := filepath.Join(t.TempDir(), "current")
	build := exec.Command("cc", "-o", program, "testdata/current.c", "shim.c", "open.c", "-ldl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	run := exec.Command(program)
	run.Env = append(os.Environ(), env...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
