package examples_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestElastic: a training has the same losses, bit for bit, on any number of ranks, and whichever of them are killed
// while it runs: at the start, on rank 0, two at once, and after the last step.
func TestElastic(t *testing.T) {
	treerun, train := built(t, "../cmd/treerun"), built(t, "train")
	const epochs, steps = 2, 46
	run := func(t *testing.T, np int, policy, kills string) (losses []string, output string) {
		log := filepath.Join(t.TempDir(), "losses")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // against a hang
		defer cancel()
		line := []string{"-np", fmt.Sprint(np), "--on-failure", policy}
		if policy == "respawn" {
			line = append(line, "--max-restarts", "9")
		}
		line = append(line, train, "--elastic", "--epochs", fmt.Sprint(epochs), "--loss-log", log)
		cmd := exec.CommandContext(ctx, treerun, line...)
		cmd.Env = append(os.Environ(), "TRAIN_KILL="+kills)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		losses = strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(losses) != steps {
			t.Fatalf("%d losses, want %d:\n%s", len(losses), steps, text)
		}
		return losses, string(out)
	}
	want, _ := run(t, 4, "stop", "")
	for _, c := range []struct {
		np            int
		policy, kills string
	}{
		{1, "stop", ""},
		{3, "stop", ""},
		{4, "respawn", "7:2 15:0"},
		{4, "shrink", "7:2 15:0"},
		{4, "respawn", "1:1 20:0 20:3 46:2"},
		{4, "shrink", "1:1 46:0"},
	} {
		t.Run(fmt.Sprintf("%d ranks, %s, killed %s", c.np, c.policy, c.kills), func(t *testing.T) {
			got, output := run(t, c.np, c.policy, c.kills)
			if !slices.Equal(got, want) {
				t.Errorf("losses\n%s\nwithout failures\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), output)
			}
			for kill := range strings.FieldsSeq(c.kills) {
				step, rank, _ := strings.Cut(kill, ":")
				if n := strings.Count(output, fmt.Sprintf("rank %s is killed after %s steps\n", rank, step)); n != 1 {
					t.Errorf("rank %s was killed %d times after %s steps, want once\n%s", rank, n, step, output)
				}
			}
			if c.kills != "" && !strings.Contains(output, "epoch 1 of the job: ") {
				t.Errorf("no line about the next epoch:\n%s", output)
			}
		})
	}
}
