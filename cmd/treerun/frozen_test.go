//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/rank"
)

// frozen is a rank of a job of which rank 1 is stopped until rank 0 continues it three seconds later. The ranks see
// each other's processes.
func frozen() {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	var pids [][]byte
	if err == nil {
		pids, err = w.AllGather(ctx, binary.BigEndian.AppendUint32(nil, uint32(os.Getpid())))
	}
	if err == nil && w.Rank() == 1 {
		err = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	} else if err == nil {
		time.Sleep(3 * time.Second)
		err = syscall.Kill(int(binary.BigEndian.Uint32(pids[1])), syscall.SIGCONT)
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
