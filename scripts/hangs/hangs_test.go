//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// The first look at a job that hangs names the rank, its call, the state of its process and its line, and the hang
// watch prints the same. scripts/hangs.sh has more rows, and when the watch prints them.
func TestHangs(t *testing.T) {
	testutil.NotUnderRace(t, "treerun and its ranks are built without the detector")
	dir := t.TempDir()
	for _, command := range []string{"cmd/treerun", "scripts/hangs"} {
		file := filepath.Join(dir, filepath.Base(command))
		if err := testutil.Build("github.com/treerun/treerun/"+command, file); err != nil {
			t.Fatal(err)
		}
	}
	for where, names := range map[string][]string{
		"host":  {"init", "never", "pipe", "stopped", "recv", "circle"},
		"tcp":   {"flock", "stopped", "recv", "circle", "output"},
		"hosts": {"path", "stopped"},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			if where == "hosts" {
				testutil.Need(t, testutil.NetNS, nethosts.Missing())
			}
			var p place
			if err := p.open(where, filepath.Join(dir, "treerun")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.close(); err != nil {
					t.Error(err)
				}
			})
			for _, k := range kinds {
				if !slices.Contains(names, k.name) {
					continue
				}
				r, err := run(k, &p, filepath.Join(dir, "hangs"))
				if err != nil {
					t.Fatal(err)
				}
				if r.Wrong != "" {
					t.Errorf("%s: %s", k.name, r.Wrong)
				}
			}
		})
	}
}

// The page in docs/lab is that of its record.
func TestPageIsCurrent(t *testing.T) {
	const folder = "../../docs/lab/"
	record, err := os.ReadFile(folder + "hangs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want, err := pageOf(record)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(folder + "hangs.md"); err != nil || string(got) != want {
		t.Errorf("hangs.md is not the page of hangs.jsonl, %v: run scripts/hangs.sh page", err)
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"kind":"never","what":"a|b","place":"host","watch_s":1.5}` + "\n" + `{"fact":"kernel","value":"Linux"}`))
	f.Add([]byte(`{"healthy_s":3,"lines":["x"]}`))
	f.Add([]byte(`{"ranks":512,"status_s":0.05}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		if text, err := pageOf(record); err == nil && !strings.HasPrefix(text, "# ") {
			t.Errorf("%q", text)
		}
	})
}
