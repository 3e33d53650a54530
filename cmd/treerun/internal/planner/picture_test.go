package planner

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the picture of the README")

// The picture of the README is the output of this command.
func TestReadmePicture(t *testing.T) {
	got := run(t, planTo, "--graph dgx1v --device cuda --algorithm packing --max-trees 3 --format svg")
	file := filepath.FromSlash("../../../../docs/images/plan.svg")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs: go test ./cmd/treerun/internal/planner -run TestReadmePicture -rewrite draws it again", file)
	}
}
