//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// stoppedSteps are the steps before which a rank is stopped, with their names in the reports.
var stoppedSteps = map[string]string{
	"New":             "New: comparing settings",
	"World.AllGather": "World.AllGather #",
	"Split":           "Split #",
	"AllReduce":       "AllReduce #21 (sum of 5000 float32)",
	"Recv":            "Recv (5000 float32, tag 1)",
}

// checkStopped checks the reports of the ranks of a job about the rank that was stopped.
func checkStopped(t *testing.T, ranks int, step, out string) {
	t.Helper()
	if strings.Contains(out, "WRONG RESULT") {
		t.Errorf("a rank got a wrong result:\n%s", out)
	}
	for r := range ranks {
		_, line, found := strings.Cut(out, fmt.Sprintf("rank %d: fault ", r))
		line, _, _ = strings.Cut(line, "\n")
		if !found || !strings.HasPrefix(line, "1, stalled true, victim 1: ") {
			t.Errorf("rank %d printed %q, want an ErrStalled of rank 1", r, line)
			continue
		}
		for _, want := range []string{"is stopped by SIGSTOP", stoppedSteps[step]} {
			if !strings.Contains(line, want) {
				t.Errorf("rank %d: %q is missing in %q", r, want, line)
			}
		}
	}
}

// A rank is stopped before a step that all others take. With --stall-timeout all of them
// get the same error, which names the rank and the state of its process, and the rank gets
// the error as well when it continues.
func TestStoppedRank(t *testing.T) {
	for step := range stoppedSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := startTreerun(t, nil, "-np", "4", "--stall-timeout", "1.5", "--no-topo-cache", "stopper", step)
			l.checkExit(0)
			checkStopped(t, 4, step, l.stderr.String())
		})
	}
}

// Without --stall-timeout, the launcher prints one line for all ranks, whatever their number, with
// the rank for which all others wait, on one host and on several.
func TestStoppedRankIsToldOnce(t *testing.T) {
	for name, hosts := range map[string][]string{
		"one host": {"-np", "6"}, "two": {"--launch-agent", hostAgent, "-H", "a:3,b:3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "stderr")
			stderr, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			l := startTreerun(t, func(cmd *exec.Cmd) { cmd.Path, cmd.Stderr = namedTreerun(t), stderr },
				append(hosts, "--no-topo-cache", "--shutdown-timeout", "0.2", "stopper", "AllReduce")...)
			var text string
			for begin := time.Now(); !strings.Contains(text, "wait together") && time.Since(begin) < maxWait; {
				time.Sleep(100 * time.Millisecond)
				b, _ := os.ReadFile(file)
				text = string(b)
			}
			time.Sleep(3 * time.Second) // for more lines
			l.signal(syscall.SIGTERM)
			l.checkExit(143)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			report := regexp.MustCompile(`(?m)^.*wait together.*$`).FindAllString(string(b), -1)
			want := regexp.MustCompile(`^treerun: 5 of 6 ranks wait together in AllReduce #21 \(sum of 5000 float32\) for \S+s; ` +
				`rank 1 is in no call; its process \d+ is stopped by SIGSTOP, in \S+ at stopper_test.go:\d+$`)
			if len(report) != 1 || !want.MatchString(report[0]) {
				t.Errorf("the launcher printed %q, want %q once; all of it:\n%s", report, want, b)
			}
		})
	}
}

// The same with ranks on three hosts, of which the stopped one shares its host with
// another, which reports its state.
func TestStoppedRankOnAnotherHost(t *testing.T) {
	launcher, _ := chaosBinaries(t)
	program, err := exec.LookPath("stopper")
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range slices.Sorted(maps.Keys(stoppedSteps)) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			h := nethosts.Up(t, 3, nethosts.Options{Prefix: fmt.Sprintf("y%d-", i)})
			l := startTreerun(t, func(cmd *exec.Cmd) {
				cmd.Path = launcher
				cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+t.TempDir())
			}, "--launch-agent", h.Agent(), "-H", fmt.Sprintf("%s,%s:2,%s", h.Name(0), h.Name(1), h.Name(2)), "--stall-timeout",
				"2", program, step)
			l.checkExit(0)
			checkStopped(t, 4, step, l.stderr.String())
		})
	}
}
