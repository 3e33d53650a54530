//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/rank"
)

// returner is a rank that kills the agent of its host in epoch 0, on the host of its argument. It leaves its epoch when
// ranks wait, and ends in an epoch of all, after the first.
func returner() {
	epochs := 0
	for w, err := range rank.Worlds(context.Background()) {
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		epochs++
		fmt.Printf("epoch %d: rank %d of %d on host %s, lost %v, joined %v, its epoch number %d\n", w.Epoch(), w.Origin(),
			w.Size(), w.Host(), w.Lost(), w.Joined(), epochs)
		if w.Epoch() > 0 && w.Size() == 3 {
			endTogether(w)
			return
		}
		if w.Epoch() == 0 { // the others have it, too, before a host is lost
			if _, err := w.AllGather(context.Background(), nil); err != nil && !rank.Again(err) {
				fmt.Println(err)
				os.Exit(6)
			}
		}
		if w.Epoch() == 0 && w.Host() == os.Args[1] && w.LocalRank() == 0 {
			_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		}
		select {
		case <-w.Changed():
		case <-w.Context().Done():
		}
	}
}

// A host that was lost is tried again. Its ranks start there, and the others, which go on without them, pause for one
// agreement. The survivors are all on one host, which in a network namespace shares no loopback with the other.
func TestHostBack(t *testing.T) {
	launcher, _ := chaosBinaries(t)
	program := install(t, t.TempDir(), "returner")
	inNamespaces := func(t *testing.T) []string {
		return []string{"--launch-agent", nethosts.Up(t, 2, nethosts.Options{Prefix: "n"}).Agent(), "-H", "n0:1,n1:2"}
	}
	here := func(*testing.T) []string { return []string{"--launch-agent", hostAgent, "-H", "n0:1,n1:2"} }
	for name, c := range map[string]struct {
		hosts func(t *testing.T) []string
		flags string
	}{
		"shrink":                {here, "--on-failure shrink"},
		"respawn":               {here, "--on-failure respawn --max-restarts 0 --push"},
		"shrink in namespaces":  {inNamespaces, "--on-failure shrink"},
		"respawn in namespaces": {inNamespaces, "--on-failure respawn --max-restarts 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(c.hosts(t), append(strings.Fields("--tag-output=false "+c.flags), program, "n1")...)
			l := startTreerun(t, func(c *exec.Cmd) { c.Path = launcher }, args...)
			l.checkEnd(0)
			checkBack(t, strings.Join(l.output, "\n"), l.stderr.String())
		})
	}
}

// checkBack checks the output of a job whose host n1 has come back.
func checkBack(t *testing.T, out, stderr string) {
	t.Helper()
	for _, want := range []string{"epoch 1: rank 0 of 1 on host n0, lost [1 2], joined [], its epoch number 2",
		"epoch 2: rank 0 of 3 on host n0, lost [], joined [1 2], its epoch number 3",
		"epoch 2: rank 2 of 3 on host n1, lost [], joined [1 2], its epoch number 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	for _, want := range []string{"with 2 ranks (1,2): ", "; the other ranks continue\n",
		"treerun: host n1 is back: starting 2 ranks (1,2), to be taken in when the program leaves its epoch\n",
		"ended well with 3 (0-2)"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is missing in\n%s", want, stderr)
		}
	}
}

// joiner is a rank that leaves its epoch whenever ranks wait to be taken in, and ends in the one that the rank of its
// argument has joined.
func joiner() {
	for w, err := range rank.Worlds(context.Background()) {
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		fmt.Printf("epoch %d: rank of %d, lost %v, joined %v\n", w.Epoch(), w.Size(), w.Lost(), w.Joined())
		if fmt.Sprint(w.Joined()) == "["+os.Args[1]+"]" {
			endTogether(w)
			return
		}
		select {
		case <-w.Changed():
		case <-w.Context().Done():
		}
	}
}
