//go:build !explore

package ring

import (
	"os/exec"
	"testing"
)

// TestExplored runs the tests that need the tag explore: see explore_test.go.
func TestExplored(t *testing.T) {
	out, err := exec.Command("go", "test", "-tags", "explore", "-count=1", "-run", "^TestExplore", "-v",
		".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
