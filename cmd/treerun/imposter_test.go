//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// identity is the identity of a rank that no launcher of treerun has started.
type identity struct {
	rank, size int
	job        string
	epoch      int
	key        string // file
	seed       string
}

func (id identity) environ(tmp string) []string {
	return append(os.Environ(), "TMPDIR="+tmp, "XDG_CACHE_HOME="+filepath.Join(tmp, "cache"),
		fmt.Sprintf("TREERUN_RANK=%d", id.rank), fmt.Sprintf("TREERUN_SIZE=%d", id.size),
		"TREERUN_JOB_ID="+id.job, fmt.Sprintf("TREERUN_EPOCH=%d", id.epoch),
		"TREERUN_KEY_FILE="+id.key, "TREERUN_SEED="+id.seed, "TREERUN_START_TIMEOUT=1m")
}

// singleRank is a rank that a test has started by itself.
type singleRank struct {
	cmd    *exec.Cmd
	output bytes.Buffer
}

func startSingleRank(t *testing.T, cmd *exec.Cmd, tmp string, id identity) *singleRank {
	t.Helper()
	l := &singleRank{cmd: cmd}
	cmd.Env = id.environ(tmp)
	cmd.Stdout, cmd.Stderr = &l.output, &l.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return l
}

// wait returns the exit code.
func (l *singleRank) wait(t *testing.T) int {
	t.Helper()
	killer := time.AfterFunc(2*maxWait, func() { l.cmd.Process.Kill() })
	l.cmd.Wait() // ProcessState holds the exit status
	if !killer.Stop() {
		t.Errorf("a rank did not end:\n%s", &l.output)
	}
	return l.cmd.ProcessState.ExitCode()
}

func writeKey(t *testing.T, dir, name, digit string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Repeat(digit, 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A job of four ranks on two hosts runs, in its second epoch. From a third host
// ranks connect that have another key, have the id of another job, are left over from the
// first epoch, or have the number of a rank that has joined already: each ends with an error
// that names the cause, and the job is not affected. A second job with the same key runs on
// the same hosts.
func TestImpostersBetweenHosts(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "imp"})
	_, looper := chaosBinaries(t)
	tmp := t.TempDir()
	good := writeKey(t, tmp, "key", "5")
	enough := filepath.Join(tmp, "enough")
	seed := h.Addr(0).String() + ":41500"
	me := identity{size: 4, job: "training", epoch: 1, key: good, seed: seed}
	second := identity{size: 4, job: "evaluation", epoch: 1, key: good, seed: h.Addr(0).String() + ":41501"}

	var jobs [2][]*singleRank
	for j, id := range []identity{me, second} {
		for r := range id.size {
			id.rank = r
			jobs[j] = append(jobs[j], startSingleRank(t, h.Command(r/2, looper, "-until", enough), tmp, id))
		}
	}
	// The first joins while the ranks still gather, the others when they may be done.
	for _, c := range []struct {
		name, want string
		id         identity
	}{
		{"key", "does not know the key of this job", identity{3, 4, "training", 1, writeKey(t, tmp, "other", "6"), seed}},
		{"job", "does not know the key of this job", identity{3, 4, "testing", 1, good, seed}},
		{"epoch", "does not know the key of this job", identity{3, 4, "training", 0, good, seed}},
		{"rank", "is rank 3, too", identity{3, 4, "training", 1, good, seed}},
	} {
		l := startSingleRank(t, h.Command(2, looper, "-calls", "1"), tmp, c.id)
		if code := l.wait(t); code == 0 || !strings.Contains(l.output.String(), c.want) {
			t.Errorf("another %s: exit code %d, want one that is not 0 and %q:\n%s", c.name, code, c.want, &l.output)
		}
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for j := range jobs {
		for r, l := range jobs[j] {
			if code := l.wait(t); code != 0 || strings.Contains(l.output.String(), "looper:") {
				t.Errorf("job %d, rank %d: exit code %d:\n%s", j, r, code, &l.output)
			}
			if n := strings.Count(l.output.String(), "refused a connection"); n > 1 {
				t.Errorf("job %d, rank %d warned %d times:\n%s", j, r, n, &l.output)
			}
		}
	}
}

// Many jobs begin at once on the same two hosts. TREERUN_JOBS=100 makes them
// more than the default of 20, which is for small machines.
func TestManyJobsBeginAtOnce(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	jobs := testutil.Count(6, 20)
	if s := os.Getenv("TREERUN_JOBS"); s != "" {
		var err error
		if jobs, err = strconv.Atoi(s); err != nil || jobs < 1 {
			t.Fatalf("TREERUN_JOBS=%q is not a number of jobs", s)
		}
	}
	h := nethosts.Up(t, 2, nethosts.Options{Prefix: "many"})
	launcher, looper := chaosBinaries(t)
	tmp := t.TempDir()
	before := listLeftovers(t, looper, tmp)
	var all sync.WaitGroup
	for i := range jobs {
		cmd := exec.Command(launcher, "-H", "many0:1,many1:1", "--launch-agent", h.Agent(), looper, "-calls", "5")
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_CACHE_HOME="+filepath.Join(tmp, "cache"))
		cmd.WaitDelay = maxWait
		all.Go(func() {
			killer := time.AfterFunc(4*time.Minute, func() { cmd.Process.Kill() })
			defer killer.Stop()
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "ready ") != 2 || strings.Contains(string(out), "refused") {
				t.Errorf("job %d: %v:\n%s", i, err, out)
			}
		})
	}
	all.Wait()
	checkNothingLeft(t, looper, tmp, before)
}

// While node 0 waits at the seed for node 1, a treerun with another key file and
// a treerun of another job connect as node 1, and a thousand unauthenticated peers, of
// which three hundred stay connected. They are refused, which one line reports, and the
// real node 1 is accepted.
func TestImpostersAtTheSeed(t *testing.T) {
	testutil.NotUnderRace(t, "packages rank and netconn have tests of their own with such peers")
	t.Parallel()
	good := newNodes(t, 2)
	zero := good.start(0, "--ppn", "1", "echo", "rank", "runs")
	imposter := *good
	imposter.key = writeKey(t, t.TempDir(), "other", "7")
	late := []string{"--start-timeout", "8", "--ppn", "1", "echo", "imposter"}
	wrongKey := imposter.start(1, late...)
	wrongJob := good.start(1, append([]string{"--job-id", "other"}, late...)...)
	for { // until node 0 listens
		if c := connectAs(t, good.seed, 0); c != nil {
			c.Close()
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	var held []net.Conn
	for i := range 1000 {
		c := connectAs(t, good.seed, i%4)
		if c != nil && len(held) < 300 {
			held = append(held, c)
		} else if c != nil {
			c.Close()
		}
	}
	for _, l := range []*launched{wrongKey, wrongJob} {
		l.checkEnd(cmdline.ExitInternal)
		if text := l.stderr.String(); !strings.Contains(text, "key") || !strings.Contains(text, "node 0 at "+good.seed) {
			t.Errorf("an imposter received: %s", text)
		}
	}
	one := good.start(1, "--ppn", "1", "echo", "rank", "runs")
	one.checkEnd(0)
	zero.checkEnd(0)
	for _, c := range held {
		c.Close()
	}
	stdout, stderr := strings.Join(zero.output, "\n"), zero.stderr.String()
	if strings.Count(stderr, "refused a connection") != 1 || strings.Count(stdout, "rank runs") != 2 {
		t.Errorf("node 0:\n%s\n%s", stdout, stderr)
	}
}
