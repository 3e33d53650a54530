//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/rank"
)

// changer is a rank that leaves its epoch whenever ranks wait to be taken in, or ends then if its argument is "ends".
// It ends in an epoch of three ranks, unless its argument is "stays".
func changer() {
	for w, err := range rank.Worlds(context.Background()) {
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		fmt.Printf("job %s epoch %d: rank %d of %d, joined %v, host %s, process %d\n", w.JobID(), w.Epoch(), w.Rank(),
			w.Size(), w.Joined(), w.Host(), os.Getpid())
		ends, stays := slices.Contains(os.Args, "ends"), slices.Contains(os.Args, "stays")
		if ends {
			<-w.Changed()
		}
		if ends || w.Size() == 3 && !stays {
			endTogether(w)
			return
		}
		select {
		case <-w.Changed():
		case <-w.Context().Done():
		}
	}
}

// endTogether ends a rank in an epoch that all others have, too.
func endTogether(w *rank.World) {
	if _, err := w.AllGather(context.Background(), nil); err != nil {
		fmt.Println(err)
		os.Exit(5)
	}
	if err := w.Close(); err != nil {
		os.Exit(4)
	}
}

// A running job is made larger, and then smaller: new ranks are taken in together, and the one with the highest number
// leaves. Nothing has failed, so the job ends with 0.
func TestResize(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "--on-failure", "shrink", "--tag-output=false",
		install(t, t.TempDir(), "changer"))
	l.expect(2, "epoch 0: rank ")
	id := strings.Fields(l.output[0])[1] // of several that may run here
	for _, step := range []struct{ size, answer, epoch string }{
		{"4", "starting 2 ranks (2,3), to be taken in when the program leaves its epoch\n", "of 4, joined [2 3]"},
		{"3", "stopping 1 rank (3)\n", "of 3, joined []"},
	} {
		command := startTreerun(t, nil, "resize", id, "-np", step.size)
		command.checkExit(0)
		if got := strings.Join(command.output, "\n") + "\n"; got != step.answer {
			t.Errorf("resize to %s: %q, want %q", step.size, got, step.answer)
		}
		size, _ := strconv.Atoi(step.size)
		l.expect(size, step.epoch)
	}
	l.checkEnd(0)
	late := startTreerun(t, nil, "resize", id, "-np", "2")
	late.checkExit(125)
	if text := late.stderr.String(); !strings.Contains(text, "does not run on this host") {
		t.Errorf("after the job: %s", text)
	}
}

// Ranks that were added end with a job that does not take them in, and a line names them.
func TestResizeInVain(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "--on-failure", "shrink", "--tag-output=false",
		install(t, t.TempDir(), "changer"), "ends")
	l.expect(2, "epoch 0: rank ")
	id := strings.Fields(l.output[0])[1]
	startTreerun(t, nil, "resize", id, "-np", "4").checkExit(0)
	l.checkEnd(0)
	const want = "treerun: 2 ranks (2,3) took no part: the program has not left the epoch of treerun resize " +
		"(hint: it looks at World.Changed)\n"
	if text := l.stderr.String(); strings.Count(text, want) != 1 {
		t.Errorf("want %q:\n%s", want, text)
	}
}

// A rank that was there at the start is killed after others were added on its host: its new process joins them.
func TestLossAfterResize(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "--on-failure", "respawn", "--tag-output=false",
		install(t, t.TempDir(), "changer"))
	l.expect(2, "epoch 0: rank ")
	id := strings.Fields(l.output[0])[1]
	startTreerun(t, nil, "resize", id, "-np", "5").checkExit(0)
	l.expect(5, "of 5, joined [2 3 4]")
	var pid int
	for _, line := range l.output {
		if strings.Contains(line, "rank 0 of 5") {
			pid, _ = strconv.Atoi(strings.TrimPrefix(line[strings.Index(line, "process "):], "process "))
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	l.expect(5, "of 5, joined [0]")
	startTreerun(t, nil, "resize", id, "-np", "3").checkExit(0)
	l.checkEnd(0)
}

// resizeTo resizes the job of l, and checks the exit code and the output of the command.
func (l *launched) resizeTo(size string, code int, want string) {
	l.t.Helper()
	command := startTreerun(l.t, nil, "resize", strings.Fields(l.output[0])[1], "-np", size)
	command.checkExit(code)
	if got := strings.Join(command.output, "\n") + command.stderr.String(); !strings.Contains(got, want) {
		l.t.Errorf("resize to %s: %q is missing in\n%s", size, want, got)
	}
}

// await waits until the output has a text.
func await(t *testing.T, output *lockedBuffer, want string) {
	t.Helper()
	for end := time.Now().Add(maxWait); !strings.Contains(output.String(), want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q is missing in\n%s", want, output)
		}
	}
}

// Added ranks fill the slots of the hosts in order, also of those that had no rank. There are no more than slots.
func TestResizeSlots(t *testing.T) {
	l := launchHosts(t, "-H", "a:2,b:2,c:1", "-np", "1", "--on-failure", "shrink", "--tag-output=false",
		install(t, t.TempDir(), "changer"))
	l.expect(1, "epoch 0: rank ")
	l.resizeTo("6", 125, "6 ranks, but 5 slots on 3 hosts (hint: start the job with more slots")
	l.resizeTo("5", 0, "starting 4 ranks (1-4)")
	l.expect(5, "of 5, joined [1 2 3 4]")
	out := strings.Join(l.output, "\n")
	for rank, host := range []string{"a", "a", "b", "b", "c"} {
		if want := fmt.Sprintf("rank %d of 5, joined [1 2 3 4], host %s,", rank, host); !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	l.resizeTo("3", 0, "stopping 2 ranks (3,4)")
	l.checkEnd(0)
}

// An added rank whose host cannot be reached is lost, and the others go on.
func TestResizeUnreachable(t *testing.T) {
	stderr := new(lockedBuffer)
	l := startTreerun(t, func(c *exec.Cmd) { c.Path, c.Stderr = namedTreerun(t), stderr }, "--launch-agent",
		`env FAKEHOST={host} sh -c 'test $FAKEHOST = a || exit 9; exec "$@"' -`, "-H", "a:1,b:2", "-np", "1", "--on-failure",
		"shrink", "--tag-output=false", install(t, t.TempDir(), "changer"), "stays")
	l.expect(1, "epoch 0: rank ")
	l.resizeTo("2", 0, "starting 1 rank (1)")
	await(t, stderr, "start treerun on host b: env exited with code 9; rank 1 is not added")
	l.signal(syscall.SIGTERM)
	l.checkEnd(143)
}

// With --cpus-per-rank an added rank has cores of its own; where there are none it does not start, and a line reports
// why.
func TestResizeCores(t *testing.T) {
	cores := job.UsableCores()
	first := max(1, cores-1)
	stderr := new(lockedBuffer)
	l := startTreerun(t, func(c *exec.Cmd) { c.Stderr = stderr }, "-np", strconv.Itoa(first), "--cpus-per-rank", "1",
		"--report-bindings", "--on-failure", "shrink", "--tag-output=false", install(t, t.TempDir(), "changer"), "stays")
	l.expect(first, "epoch 0: rank ")
	if cores > 1 {
		l.resizeTo(strconv.Itoa(cores), 0, "starting 1 rank")
		l.expect(cores, fmt.Sprintf("of %d, joined [%d]", cores, first))
	}
	l.resizeTo(strconv.Itoa(cores+1), 0, "starting 1 rank")
	await(t, stderr, fmt.Sprintf("rank %[1]d: --cpus-per-rank 1, but other ranks have %[1]d of the %[1]d cores", cores))
	l.signal(syscall.SIGTERM)
	l.checkEnd(143)
	owner := make(map[string]string)
	for _, m := range regexp.MustCompile(`rank (\d+): core (\d+)`).FindAllStringSubmatch(stderr.String(), -1) {
		if other, taken := owner[m[2]]; taken {
			t.Errorf("ranks %s and %s have core %s", other, m[1], m[2])
		}
		owner[m[2]] = m[1]
	}
	if len(owner) != cores {
		t.Errorf("%d cores have a rank, want %d:\n%s", len(owner), cores, stderr)
	}
}
