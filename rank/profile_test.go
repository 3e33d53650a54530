//go:build linux

package rank

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A rank's profiles follow each other without a gap, and one of them covers the time after the first.
func TestProfiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	p, err := startProfiler(dir, 7)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(firstProfile + firstProfile/4)
	p.rotate(true)
	for _, name := range []string{"rank-7.pprof", "rank-7.2.pprof", "heap-7.pprof"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if _, err := startProfiler(filepath.Join(dir, "heap-7.pprof"), 0); err == nil ||
		!strings.Contains(err.Error(), "--pprof: mkdir ") {
		t.Errorf("a file in place of the folder: %v", err)
	}
}
