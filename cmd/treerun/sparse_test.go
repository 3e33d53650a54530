package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kill -9 of any rank in the middle of sparse calls, in every form: all others get a
// typed error that names it, treerun says what happened, and nothing is left.
func TestKillInSparseCalls(t *testing.T) {
	looper := filepath.Join(t.TempDir(), "looper")
	if msg, err := exec.Command("go", "build", "-o", looper, "./testdata/looper").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	before := leftovers(t, looper, filepath.Dir(looper))
	for i, form := range []string{"trees", "aggregators", "shared", "dense", "trees", "aggregators", "shared", "dense"} {
		np := 4
		if i >= 4 {
			np = 2 // every rank has a core
		}
		t.Run(fmt.Sprintf("%s/%d ranks", form, np), func(t *testing.T) {
			l := launch(t, func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_CACHE_HOME="+t.TempDir()) },
				"-np", fmt.Sprint(np), looper, "-sparse", form)
			l.expect(np, "ready ")
			pids := make(map[int]int) // by rank
			for _, line := range l.seen {
				var pid, rank int
				if _, text, ok := strings.Cut(line, "ready "); ok {
					if n, _ := fmt.Sscanf(text, "%d rank %d", &pid, &rank); n == 2 {
						pids[rank] = pid
					}
				}
			}
			victim := rand.IntN(np)
			if len(pids) != np {
				t.Fatalf("processes %v of\n%s", pids, strings.Join(l.seen, "\n"))
			}
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			if err := syscall.Kill(pids[victim], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			l.ends(137)
			text := l.stderr.String()
			told := make(map[int]bool)
			for line := range strings.Lines(text) {
				var me, lost int
				_, report, ok := strings.Cut(line, "looper: ")
				if n, _ := fmt.Sscanf(report, "rank %d: RankError of %d at", &me, &lost); ok && n == 2 && lost == victim && strings.Contains(report, "killed by SIGKILL") {
					told[me] = true
				}
			}
			if len(told) != np-1 || told[victim] {
				t.Errorf("of rank %d's end were told %v", victim, told)
			}
			if !strings.Contains(text, fmt.Sprintf("rank %d", victim)) || !strings.Contains(text, "failed first: it was killed by SIGKILL") || strings.Contains(text, "WRONG RESULT") {
				t.Errorf("the cause is not rank %d and SIGKILL", victim)
			}
			nothingLeft(t, looper, filepath.Dir(looper), before)
			if t.Failed() {
				t.Logf("stderr:\n%s", text)
			}
		})
	}
}
