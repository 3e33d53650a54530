//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/treerun/treerun/rank"
)

// hostkiller is a rank that kills the agent of its host: in epoch 0 on host b, in epoch 1 on host c. Behind these it
// ends.
func hostkiller() {
	for w, err := range rank.Worlds(context.Background()) {
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		fmt.Printf("rank %d on host %s\n", w.Origin(), w.Host())
		if w.Epoch() >= 2 {
			if err := w.Close(); err != nil {
				os.Exit(4)
			}
			return
		}
		if w.Host() == string(rune('b'+w.Epoch())) && w.LocalRank() == 0 {
			_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		}
		<-w.Context().Done()
	}
}

// The ranks of a host that is lost start on a spare one, and when that is lost, too, on another. Without one that is
// left, the others would continue alone.
func TestSpares(t *testing.T) {
	l := launchHosts(t, "-H", "a:1,b:2,c:2,d:2", "--spares", "2", "--on-failure", "respawn", "--max-restarts", "4",
		"--tag-output=false", install(t, t.TempDir(), "hostkiller"))
	l.checkEnd(0)
	out := strings.Join(l.output, "\n")
	for _, want := range []string{"rank 0 on host a", "rank 1 on host d", "rank 2 on host d"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	for _, want := range []string{"host b was lost", "they start again on host c (restart 2 of 4)", "host c was lost",
		"they start again on host d (restart 4 of 4)"} {
		if !strings.Contains(l.stderr.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &l.stderr)
		}
	}
}

// With restart, all ranks start again, those of the lost host on a spare one; until none is left.
func TestSparesOfRestart(t *testing.T) {
	l := launchHosts(t, "-H", "b:2,a:1,c:2,d:2", "--spares", "2", "--on-failure", "restart", "--tag-output=false", "sh",
		"-c", `echo $RANK has master $MASTER_ADDR; exec hostkiller`)
	l.checkEnd(0)
	out := strings.Join(l.output, "\n")
	for _, want := range []string{"rank 0 on host d", "rank 1 on host d", "rank 2 on host a", "2 has master d"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	for _, want := range []string{"; all ranks start again (restart 1 of 3), these on host c\n",
		"; all ranks start again (restart 2 of 3), these on host d\n", "has ended well with 3 (0-2), after the loss of:"} {
		if !strings.Contains(l.stderr.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &l.stderr)
		}
	}
	l = launchHosts(t, "-H", "a:1,b:1", "--on-failure", "restart", "hostkiller")
	l.checkEnd(125)
	if text := l.stderr.String(); !strings.Contains(text, "; the job ends: its host is lost\n") {
		t.Errorf("stderr:\n%s", text)
	}
}

// Flags that ask for hosts that are not there, or for no use of them.
func TestSparesUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-H a:1,b:1 --spares 2 --on-failure respawn", "--spares 2 leaves none of 2 hosts"},
		{"-H a:1,b:1 --spares 1", "--spares is for --on-failure restart or respawn, not stop"},
		{"-H a:1,localhost:1 --spares 1 --on-failure respawn", "localhost is this host"},
	} {
		l := startTreerun(t, nil, append(strings.Fields(c.args), "true")...)
		l.checkExit(64)
		if !strings.Contains(l.stderr.String(), c.want) {
			t.Errorf("%s: %s", c.args, &l.stderr)
		}
	}
}
