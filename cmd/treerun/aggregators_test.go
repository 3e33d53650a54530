package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// looperBinary builds testdata/looper.
func looperBinary(t *testing.T) string {
	t.Helper()
	looper := filepath.Join(t.TempDir(), "looper")
	if msg, err := exec.Command("go", "build", "-o", looper, "./testdata/looper").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	return looper
}

// aggregators returns the job's aggregators that run, as the guard's mark finds them.
func (l *launched) aggregators() (pids []int) {
	for _, pid := range marked(l.mark) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Equal(line, []byte("treerun\x00rank:aggregator\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill -9 of an aggregator, and of a rank that it serves, in the middle of sparse calls:
// every rank that is left gets a typed error that names who it was, and nothing is left.
func TestKillWithAggregators(t *testing.T) {
	looper := looperBinary(t)
	const np = 3
	for _, victim := range []string{"aggregator", "rank"} {
		t.Run(victim, func(t *testing.T) {
			l := launch(t, func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_CACHE_HOME="+t.TempDir()) },
				"-np", strconv.Itoa(np), "--aggregators", "2", looper, "-sparse", "aggregators")
			l.expect(np, "ready ")
			aggregators := l.aggregators()
			if len(aggregators) != 2 {
				t.Fatalf("aggregators %v", aggregators)
			}
			pid, told := aggregators[1], np
			if victim == "rank" {
				_, text, _ := strings.Cut(l.seen[0], "ready ")
				if _, err := fmt.Sscan(text, &pid); err != nil {
					t.Fatal(err)
				}
				told--
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			l.ends(137)
			text := l.stderr.String()
			errs := 0
			for line := range strings.Lines(text) {
				if !strings.Contains(line, ": RankError of ") {
					continue
				}
				errs++
				if victim == "aggregator" && (!strings.Contains(line, ": RankError of -1 ") || !strings.Contains(line, "aggregator ") || !strings.Contains(line, " on host ")) {
					t.Errorf("this does not name the aggregator and its host: %s", line)
				}
			}
			if errs != told {
				t.Errorf("%d typed errors, want %d", errs, told)
			}
			if !strings.Contains(text, "treerun: "+victim+" ") || !strings.Contains(text, "failed first: it was killed by SIGKILL") || !strings.Contains(text, fmt.Sprintf("pid     %d\n", pid)) {
				t.Errorf("the cause is not the %s, process %d", victim, pid)
			}
			if t.Failed() {
				t.Logf("stderr:\n%s", text)
			}
		})
	}
}

// A program that knows nothing of aggregators, or of treerun, runs as without them:
// its ranks are those that were asked for, and aggregators take no time of the
// processor, read no input, and end with them, also when the job is stopped.
func TestAggregatorsThatNobodyNeeds(t *testing.T) {
	l := launch(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader("for rank 0\n") },
		"-np", "2", "--aggregators", "2", "sh", "-c", `test $TREERUN_RANK = 0 && read line && echo "got $line"; echo ready $WORLD_SIZE $TREERUN_AGGREGATORS; exec sleep 300`)
	l.expect(2, "ready 2 2")
	if !slices.Contains(l.seen, "[0] got for rank 0") {
		t.Errorf("rank 0 got no input: %q", l.seen)
	}
	aggregators := l.aggregators()
	for late := time.Now().Add(patience); len(aggregators) < 2 && time.Now().Before(late); aggregators = l.aggregators() {
		time.Sleep(10 * time.Millisecond) // they are started after the ranks
	}
	if len(aggregators) != 2 {
		t.Fatalf("aggregators %v", aggregators)
	}
	used := 0
	for range 10 { // at first they may still be starting
		before := ticks(t, aggregators)
		time.Sleep(500 * time.Millisecond)
		if used = ticks(t, aggregators) - before; used <= 3 {
			break
		}
	}
	if used > 3 {
		t.Errorf("idle aggregators used %d ticks of the processor in half a second", used)
	}
	l.signal(syscall.SIGTERM)
	l.ends(143)
	if text := l.stderr.String(); strings.Contains(text, "aggregator") {
		t.Errorf("stderr:\n%s", text)
	}
	for _, code := range []int{0, 3} {
		launch(t, nil, "-np", "2", "--aggregators", "3", "sh", "-c", fmt.Sprintf("exit %d", code)).ends(code)
	}
}

// ticks returns what processes have used of the processor, in hundredths of a second.
func ticks(t *testing.T, pids []int) (n int) {
	t.Helper()
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, f := range fields[11:13] { // utime and stime, in ticks
			v, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			n += v
		}
	}
	return n
}

// Aggregators go to slots that the ranks leave free, on any host, and treerun says so;
// sparse calls between hosts are right with them.
func TestAggregatorsOnHosts(t *testing.T) {
	looper := looperBinary(t)
	{
		l := launchHosts(t, "-v", "-H", "a:1,b:1,c:1", "-np", "2", "--aggregators", "2", looper, "-sparse", "aggregators", "-calls", "20")
		l.ends(0)
		for _, want := range []string{"aggregator 0 is on host c", "aggregator 1 is on host a", "aggregators, as was said; with 2 aggregators of their own"} {
			if !strings.Contains(l.stderr.String(), want) {
				t.Errorf("%q is missing in\n%s", want, &l.stderr)
			}
		}
	}
}

func TestAggregatorValues(t *testing.T) {
	for _, value := range []string{"-1", "65", "many", ""} {
		l := launch(t, nil, "-np", "2", "--aggregators", value, "sh", "-c", "echo never")
		l.ends(64)
		if text := l.stderr.String(); !strings.Contains(text, "aggregators") || strings.Contains(text, "never") {
			t.Errorf("%q: %s", value, text)
		}
	}
}
