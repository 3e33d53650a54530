//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// kill -9 of any rank in the middle of sparse calls, in every form: all others get a
// typed error that names it, none a wrong result, treerun reports the cause, and nothing
// is left. The victims of -serve are once a worker and once a rank that serves.
func TestKillInSparseCalls(t *testing.T) {
	testutil.NotUnderRace(t, "TestConcurrentSparseCalls makes the same calls")
	looper := installLooper(t, t.TempDir())
	before := listLeftovers(t, looper, filepath.Dir(looper))
	type kill struct {
		np       int
		args     string
		from, to int // ranks of which one is killed
	}
	kills := []kill{{4, "aggregators -serve 2", 0, 2}, {4, "aggregators -serve 2", 2, 4},
		{2, "aggregators -serve 1", 0, 1}, {2, "aggregators -serve 1", 1, 2}}
	for _, form := range []string{"trees", "aggregators", "shared", "dense"} {
		for _, np := range []int{4, 2}[:testutil.Count(1, 2)] { // with 2, every rank has a core
			kills = append(kills, kill{np, form, 0, np})
		}
	}
	for _, k := range kills {
		t.Run(fmt.Sprintf("%s/one of ranks %d to %d of %d", k.args, k.from, k.to-1, k.np), func(t *testing.T) {
			np := k.np
			l := startTreerun(t, func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_CACHE_HOME="+t.TempDir()) },
				append([]string{"-np", fmt.Sprint(np), looper, "-sparse"}, strings.Fields(k.args)...)...)
			l.expect(np, "ready ")
			pids := make(map[int]int) // by rank
			for _, line := range l.output {
				var pid, rank int
				if _, text, ok := strings.Cut(line, "ready "); ok {
					if n, _ := fmt.Sscanf(text, "%d rank %d", &pid, &rank); n == 2 {
						pids[rank] = pid
					}
				}
			}
			victim := k.from + rand.IntN(k.to-k.from)
			if len(pids) != np {
				t.Fatalf("processes %v of\n%s", pids, strings.Join(l.output, "\n"))
			}
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			if err := syscall.Kill(pids[victim], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			l.checkEnd(137)
			text := l.stderr.String()
			notified := make(map[int]bool)
			for line := range strings.Lines(text) {
				var me, lost int
				_, report, ok := strings.Cut(line, "looper: ")
				if n, _ := fmt.Sscanf(report, "rank %d: RankError of %d at", &me, &lost); ok && n == 2 && lost == victim &&
					strings.Contains(report, "killed by SIGKILL") {
					notified[me] = true
				}
			}
			if len(notified) != np-1 || notified[victim] {
				t.Errorf("of rank %d's end were notified %v", victim, notified)
			}
			if !strings.Contains(text, fmt.Sprintf("rank %d", victim)) ||
				!strings.Contains(text, "failed first: it was killed by SIGKILL") || strings.Contains(text, "WRONG RESULT") {
				t.Errorf("the cause is not rank %d and SIGKILL", victim)
			}
			checkNothingLeft(t, looper, filepath.Dir(looper), before)
			if t.Failed() {
				t.Logf("stderr:\n%s", text)
			}
		})
	}
}

// wantServedRows checks that bench has printed the given number of rows of workers, in the form with
// aggregators, with right results.
func wantServedRows(t *testing.T, lines []string, rows, workers int) {
	t.Helper()
	if len(lines) != rows {
		t.Errorf("%d rows, want %d: %q", len(lines), rows, lines)
	}
	for _, line := range lines {
		var r struct {
			NP     int    `json:"np"`
			Wrong  *int64 `json:"wrong"`
			Sparse struct {
				Form string `json:"form"`
			} `json:"sparse"`
		}
		if err := json.NewDecoder(bytes.NewReader([]byte(line))).Decode(&r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.NP != workers || r.Wrong == nil || *r.Wrong != 0 || r.Sparse.Form != "aggregators" {
			t.Errorf("%s", line)
		}
	}
}

// The ranks of --aggregators are in addition to those of -np; only the latter have tensors and count.
func TestBenchAggregators(t *testing.T) {
	testutil.NotUnderRace(t, "package bench has tests of its own")
	l := startTreerun(t, func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_CACHE_HOME="+t.TempDir()) },
		"bench", "-np", "3", "--aggregators", "2", "--collective", "sparse-allreduce", "-v",
		"-b", "64K", "-e", "1M", "-f", "16", "-i", "2", "-w", "1", "--density", "0.05,1", "-d", "float32,int64", "--json",
		"-")
	l.checkEnd(0)
	wantServedRows(t, l.output, 16, 3)
	if text := l.stderr.String(); !strings.Contains(text, "aggregators, on ranks that serve: 3,4") {
		t.Errorf("the serving ranks are not printed:\n%s", text)
	}
	startTreerun(t, nil, "-np", "2", "--aggregators", "2", "true").checkEnd(64) // it is a flag of bench only
}

// Between hosts, aggregators take slots that the workers leave free, and otherwise go to the workers'
// hosts in turn.
func TestBenchAggregatorsBetweenHosts(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	t.Parallel()
	launcher, _ := chaosBinaries(t)
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "g", Networks: []nethosts.Network{{Rates: []string{"500mbit"}}}})
	for hosts, want := range map[string][2]string{"g0:2,g1:1,g2:2": {"g2", "g2"}, "g0:1,g1:1,g2:1": {"g0", "g1"}} {
		rows := filepath.Join(t.TempDir(), "rows")
		l := startTreerun(t, func(cmd *exec.Cmd) {
			cmd.Path = launcher
			cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+t.TempDir())
		}, "bench", "--launch-agent", h.Agent(), "-H", hosts, "-np", "3", "--aggregators", "2", "--collective",
			"sparse-allreduce",
			"-b", "256K", "-e", "256K", "-i", "1", "-w", "1", "--density", "0.05,1", "-d", "float32", "--in-place=no", "--json",
			rows)
		l.checkEnd(0)
		text, err := os.ReadFile(rows)
		if err != nil {
			t.Fatal(err)
		}
		wantServedRows(t, strings.Split(strings.TrimSpace(string(text)), "\n"), 2, 3)
		for i, host := range want {
			if !slices.ContainsFunc(l.output, func(line string) bool {
				return strings.HasPrefix(line, fmt.Sprintf("#  Rank %2d ", 3+i)) && strings.Contains(line, " on ") &&
					strings.Contains(line, " "+host+" device")
			}) {
				t.Errorf("%s: rank %d is not on %s:\n%s", hosts, 3+i, host, strings.Join(l.output, "\n"))
			}
		}
	}
	for i := range h.Len() {
		if err := waitUntilEmpty(h, i); err != nil {
			t.Error(err)
		}
	}
}

// TestConcurrentSparseCalls: goroutines of a rank that make sparse calls, each on a communicator of its own, let each
// other run. In an earlier version, concurrent calls took 4 to 15 times as long as calls in turn where ranks share
// cores.
func TestConcurrentSparseCalls(t *testing.T) {
	program := filepath.Join(t.TempDir(), "concurrent")
	if err := testutil.Build("github.com/treerun/treerun/scripts/faults/testdata/concurrent", program); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"trees", "aggregators", "shared"} {
		most := 1e9
		for tries := 0; tries < 5 && most > 2.5; tries++ {
			cmd := exec.Command("treerun", "-np", "4", "--tag-output=false", program, "4", "5", "30", form)
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			out, err := cmd.Output()
			var turn, rotation, once, ratio float64
			if _, scanErr := fmt.Sscan(string(out), &turn, &rotation, &once, &ratio); err != nil || scanErr != nil {
				t.Fatalf("%v, %v: %s", err, scanErr, out)
			}
			most = min(most, ratio)
		}
		if most > 2.5 {
			t.Errorf("%s: at once %v times as long as in turn", form, most)
		}
	}
}
