//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// built builds treerun and gpucheck and returns their folder.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "../../cmd/treerun", "../../examples/train", ".")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// Everything runs on a fake host with one GPU, and with two, step by step, and leaves
// a file with all of it; but no page is made of that.
func TestAllOnFakeHost(t *testing.T) {
	dir := built(t)
	for graph, gpus := range map[string]int{"dgx1v/0": 1, "dgx1v/0-1": 2} {
		t.Run(graph, func(t *testing.T) { allOn(t, dir, graph, gpus) })
	}
}

func allOn(t *testing.T, dir, graph string, gpus int) {
	file := filepath.Join(t.TempDir(), "out.json")
	c := exec.CommandContext(t.Context(), filepath.Join(dir, "gpucheck"), "all", "--treerun",
		filepath.Join(dir, "treerun"),
		"--train", filepath.Join(dir, "train"), "--json", file, "--sample", "8", "--processes", "2,4", "--step-time", "5m",
		"--time", "1h")
	c.Env = append(append(os.Environ(), "TMPDIR="+dir), fakegpu.Start(t, graph)...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if !r.Fake || len(r.GPUs) != gpus || len(r.Steps) < 10 || len(r.Kernels) < 5 || r.Processes == nil ||
		r.Latency == nil || len(r.Bench) < 4 || r.KillMs <= 0 {
		t.Errorf("found %s", text)
	}
	for _, s := range r.Steps {
		if !s.OK || s.Text == "" {
			t.Errorf("step %+v", s)
		}
	}
	page := filepath.Join(dir, "page.md")
	if err := run([]string{"page", file, page}); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(page); err != nil || !strings.Contains(string(text), "not been run on a real GPU") {
		t.Errorf("the page of a fake host: %v\n%s", err, text)
	}
}
