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

// frozen is a rank of a job of which rank 1 is stopped for three seconds, while the others wait for it.
func frozen() {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err == nil && w.Rank() == 1 {
		err = exec.Command("sh", "-c", `(sleep 3; kill -CONT "$0") > /dev/null 2>&1 &`, fmt.Sprint(os.Getpid())).Run()
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	if err == nil {
		_, err = w.AllGather(ctx, nil)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

// A rank that is stopped for longer than the peer timeout, on a host that answers, is not lost.
func TestFrozenRank(t *testing.T) {
	t.Parallel()
	h := nethosts.Up(t, 2, nethosts.Options{Prefix: "fz"})
	program := install(t, t.TempDir(), "frozen")
	l := startTreerun(t, func(c *exec.Cmd) { c.Path = namedTreerun(t) }, "--launch-agent", h.Agent(), "-H",
		h.Name(0)+","+h.Name(1), "--peer-timeout", "1", program)
	l.checkEnd(0)
	if text := l.stderr.String(); strings.Count(text, "rank 1 is stopped by SIGSTOP") != 1 ||
		strings.Contains(text, "lost") {
		t.Errorf("stderr:\n%s", text)
	}
}
