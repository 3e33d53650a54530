//go:build linux

package launch

import (
	"os"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/agent"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
)

// The time limit is over between the end of the last rank and that of the leftover processes of the ranks: it holds for
// the output that is still to come.
func TestLimitOverWhileLeftoversAreStopped(t *testing.T) {
	unread, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	defer out.Close()
	src, rank, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer rank.Close()
		_, _ = rank.Write(make([]byte, 200<<10)) // more than the pipe takes
	}()
	s := &supervisor{
		job:   &Job{Screen: output.NewScreen(out, os.Stderr), Timeout: time.Nanosecond},
		tree:  &agent.Tree{},
		hosts: []*hostState{{phase: started}}, printing: 1,
		events: make(chan func(), 1), quit: make(chan struct{}),
	}
	defer close(s.quit)
	go func() {
		output.NewStream(s.job.Screen.Out, 0, output.Options{}).Run(src)
		s.post(func() { s.printing-- })
	}()
	s.onTimeout()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.drain()
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("output that is not read holds up the job beyond its time limit")
	}
	if code := s.exitCode(); code != cmdline.ExitTimeout {
		t.Errorf("exit code %d, want %d", code, cmdline.ExitTimeout)
	}
}
