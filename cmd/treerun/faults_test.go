//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// TestRankFaults checks the messages of a job when one of its ranks misbehaves. The
// program is the looper.
func TestRankFaults(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	launcher, looper := chaosBinaries(t)
	tmp := t.TempDir()
	before := listLeftovers(t, looper, tmp)
	for _, tc := range []struct {
		name     string
		args     []string
		code     int
		ranks    int      // that report a typed error
		wantText []string // on stderr
	}{
		{"exits with 0 before Init while the others wait", []string{"-early", "1"}, 3, 3,
			[]string{"rank 1", "exited with code 0 before it joined"}},
		{"closes while the others are in a call", []string{"-leave", "2"}, 3, 3,
			[]string{"rank 2 closed its communicator"}},
		{"makes another call", []string{"-odd", "3"}, 3, 4,
			[]string{"Barrier #2", "AllReduce #2 (sum of"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := startJob(t, tmp, launcher, append([]string{"-np", "4", looper}, tc.args...)...)
			start := time.Now()
			code := j.wait(t)
			text := j.stderr.String()
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if got := len(j.reportTimes()); got != tc.ranks {
				t.Errorf("%d ranks reported a typed error, want %d", got, tc.ranks)
			}
			for _, want := range tc.wantText {
				if !strings.Contains(text, want) {
					t.Errorf("stderr lacks %q", want)
				}
			}
			if took := time.Since(start); took > maxWait {
				t.Errorf("the job needed %v to find out", took)
			}
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", &j.stdout, &j.stderr)
			}
			checkNothingLeft(t, looper, tmp, before)
		})
	}
}
