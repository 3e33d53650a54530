//go:build linux

package environ

import (
	"strings"
	"testing"
)

// A rank's GPU comes from the job file, or from TREERUN_DEVICE where another
// launcher, or none, has started it.
func TestDevice(t *testing.T) {
	for _, vars := range []string{
		"TREERUN_DEVICE=GPU-5f1c",
		"TREERUN_DEVICE=GPU-5f1c RANK=0 WORLD_SIZE=1",
		"TREERUN_DEVICE=GPU-5f1c RANK=1 WORLD_SIZE=2 TREERUN_SEED=127.0.0.1:7000",
	} {
		cfg, err := Find(env(t, vars))
		if err != nil {
			t.Fatalf("%s: %v", vars, err)
		}
		if got := cfg.Device; got != "GPU-5f1c" {
			t.Errorf("%s: device %q", vars, got)
		}
	}
	if cfg, err := Find(env(t, "")); err != nil || cfg.Device != "" {
		t.Errorf("without a GPU: %+v, %v", cfg, err)
	}
	long := "TREERUN_DEVICE=" + strings.Repeat("x", 1000)
	for _, vars := range []string{long, long + " RANK=1 WORLD_SIZE=2 TREERUN_SEED=127.0.0.1:7000"} {
		if _, err := Find(env(t, vars)); err == nil || !strings.Contains(err.Error(), "TREERUN_DEVICE sets it") {
			t.Errorf("error %v", err)
		}
	}
}
