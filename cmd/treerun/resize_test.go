//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/treerun/treerun/rank"
)

// changer is a rank that leaves its epoch whenever ranks wait to be taken in, or ends then if it has an argument. It
// ends in an epoch of three ranks.
func changer() {
	for w, err := range rank.Worlds(context.Background()) {
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		fmt.Printf("job %s epoch %d: rank %d of %d, joined %v, process %d\n", w.JobID(), w.Epoch(), w.Rank(), w.Size(),
			w.Joined(), os.Getpid())
		if len(os.Args) > 1 {
			<-w.Changed()
		}
		if len(os.Args) > 1 || w.Size() == 3 {
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
