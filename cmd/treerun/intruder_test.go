//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// intruder is a process of the command intruder.
type intruder struct {
	cmd *exec.Cmd
	in  io.Closer

	mu       sync.Mutex
	messages []string
	done     chan struct{}
}

// startIntruder starts an intruder, which ends with the test at the latest.
func startIntruder(t *testing.T, cmd *exec.Cmd) *intruder {
	t.Helper()
	x := &intruder{cmd: cmd, done: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	x.in = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errors bytes.Buffer
	cmd.Stderr = &errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			x.mu.Lock()
			x.messages = append(x.messages, lines.Text())
			x.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		x.in.Close()
		<-x.done
		if err := cmd.Wait(); err != nil {
			t.Errorf("the intruder: %v\n%s", err, &errors)
		}
	})
	return x
}

// count returns how often it has printed text.
func (x *intruder) count(text string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.messages {
		if s == text {
			n++
		}
	}
	return n
}

// waitForText waits until it has printed text.
func (x *intruder) waitForText(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(maxWait); x.count(text) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the intruder has not printed %q", text)
		}
	}
}

// waitUntil waits until f holds, and fails the test if that takes too
// long.
func waitUntil(t *testing.T, j *chaosJob, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * maxWait); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			j.cmd.Process.Kill()
			j.cmd.Wait()
			t.Fatalf("no %s\nstdout:\n%s\nstderr:\n%s", what, &j.stdout, &j.stderr)
		}
	}
}

// A job runs on two hosts. From a third one an intruder connects to every port that
// opens, a thousand times in all, in ten ways; and on one of the two another intruder
// overhears all greetings of ranks and repeats them at once. The job prints
// only a line per port and source, and ends well.
func TestIntrudersBetweenHosts(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	h := nethosts.Up(t, 3, nethosts.Options{Prefix: "port"})
	launcher, looper := chaosBinaries(t)
	exe, err := exec.LookPath("intruder")
	if err != nil {
		t.Fatal(err)
	}
	for _, encrypt := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "encrypted"}[encrypt]
		t.Run(name, func(t *testing.T) { testIntruders(t, h, launcher, looper, exe, encrypt) })
	}
}

// warnings counts the lines of a rank that report refused callers, followed by words.
func (j *chaosJob) warnings(rank int, words string) (n int) {
	for line := range strings.Lines(j.stderr.String()) {
		if strings.HasPrefix(line, fmt.Sprintf("[%d] ", rank)) &&
			strings.Contains(line, "refused a connection that is not from a rank of this job; "+words) {
			n++
		}
	}
	return n
}

func testIntruders(t *testing.T, h *nethosts.Hosts, launcher, looper, exe string, encrypt bool) {
	const size, ports = 4, "41000-41023"
	tmp := t.TempDir()
	before := listLeftovers(t, looper, tmp)
	enough := filepath.Join(tmp, "enough")

	replays := startIntruder(t, h.Command(0, exe, "-replay"))
	replays.waitForText(t, "listening") // else it may miss all greetings
	crowd := startIntruder(t, h.Command(2, exe, "-hosts", h.Addr(0).String()+","+h.Addr(1).String(), "-ports", ports, "-n",
		"500"))
	args := []string{"-H", h.Name(0) + ":2," + h.Name(1) + ":2", "--launch-agent", h.Agent(), "--port-range", ports}
	if encrypt {
		args = append(args, "--encrypt")
	}
	j := startJob(t, tmp, launcher, append(args, looper, "-until", enough)...)
	waitUntil(t, j, "crowd", func() bool { return crowd.count("enough") > 0 && replays.count("refused trnc") > 0 })
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code := j.wait(t)
	if code != 0 || strings.Count(j.stdout.String(), "ready ") != size || strings.Contains(j.stderr.String(), "looper:") {
		t.Errorf("exit code %d, want 0 and %d ranks ready\nstdout:\n%s\nstderr:\n%s", code, size, &j.stdout, &j.stderr)
	}
	// The ports of transport/tcp are open for some milliseconds only.
	if replays.count("refused trnc") == 0 || replays.count("let in trnc") > 0 {
		t.Errorf("greetings repeated: %q", replays.messages)
	}
	for r := range size {
		if n := j.warnings(r, "later ones are not reported"); n < 1 || n > 3 {
			t.Errorf("rank %d warned %d times, want once at its own port, and at most once each while measuring and "+
				"afterwards\n%s", r, n, &j.stderr)
		}
	}
	if err := os.Remove(enough); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, looper, tmp, before)
}
