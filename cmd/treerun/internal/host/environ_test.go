//go:build linux

package host

import (
	"fmt"
	"slices"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/topo/gpu"
)

func TestEnvironments(t *testing.T) {
	base := []string{"A=1", "RANK=stale", "RANK_OF_NOBODY=kept", "TREERUN_JOB_FD=9", "B="}
	common := without(base, rankVariables...)
	if !slices.Equal(common, []string{"A=1", "RANK_OF_NOBODY=kept", "B="}) {
		t.Errorf("without: %q", common)
	}
	none := gpus.Rank{}
	one, two := rankEnv(common, 1, 1, none), rankEnv(common, 2, 2, none)
	for r, env := range map[int][]string{1: one, 2: two} { // they must not share memory
		if !slices.Contains(env, fmt.Sprintf("RANK=%d", r)) ||
			!slices.Contains(env, fmt.Sprintf("TREERUN_LOCAL_RANK=%d", r)) {
			t.Errorf("environment of rank %d: %q", r, env)
		}
	}
	b := &gpu.GPU{UUID: "GPU-b"}
	shown := append(common, "CUDA_VISIBLE_DEVICES=7")
	for want, own := range map[string]gpus.Rank{
		"CUDA_VISIBLE_DEVICES=7":           {GPU: b}, // all stay visible
		"CUDA_VISIBLE_DEVICES=GPU-b,GPU-a": {GPU: b, Visible: "GPU-b,GPU-a"},
	} {
		env := rankEnv(shown, 5, 1, own)
		if !slices.Contains(env, want) || !slices.Contains(env, "TREERUN_DEVICE=GPU-b") || len(env) != len(shown)+5 {
			t.Errorf("environment of a rank with a GPU: %q, want %q in it", env, want)
		}
	}
	if got := Setenv([]string{"A=1", "B=2", "A=3"}, "A=4"); !slices.Equal(got, []string{"B=2", "A=4"}) {
		t.Errorf("Setenv: %q", got)
	}
}
