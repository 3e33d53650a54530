// Package examples_test runs examples as a reader would: with the command.
package examples_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// One rank and four print the same line.
func TestLaunched(t *testing.T) {
	treerun := filepath.Join(t.TempDir(), "treerun")
	if err := testutil.Build("github.com/treerun/treerun/cmd/treerun", treerun); err != nil {
		t.Fatal(err)
	}
	for program, line := range map[string]string{
		"heat":   `steps=\d+ change=\S+e-07 error=0.00\d+ checksum=[0-9a-f]{16}`,
		"kmeans": `iterations=\d+ distance=\d+\.\d+ purity=0.7\d+`,
	} {
		t.Run(program, func(t *testing.T) {
			var one string
			for _, np := range []int{1, 4} {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // against a hang
				defer cancel()
				cmd := exec.CommandContext(ctx, treerun, "-np", fmt.Sprint(np), "--tag-output=false", "./"+program)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("np %d: %v\n%s", np, err, out)
				}
				if one == "" {
					one = string(out)
				}
				if string(out) != one || !regexp.MustCompile("^"+line+"\n$").MatchString(one) {
					t.Errorf("np %d prints %q, one rank %q", np, out, one)
				}
			}
		})
	}
}
