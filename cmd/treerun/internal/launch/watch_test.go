//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/waits"
)

// A verdict that no work explains is printed once, when two looks agree; one that work may explain after ten seconds.
// When the waits are over, one line follows, but none when the job ends.
func TestWatch(t *testing.T) {
	name := filepath.Join(t.TempDir(), "screen")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &supervisor{job: &Job{Size: 2, Screen: output.NewScreen(f, f)}, quit: make(chan struct{}),
		looks: make(map[int]*look), members: membership.New(membership.Config{Size: 2})}
	close(s.quit) // the clocks are this test's
	h := &hostState{phase: started}
	for r := range 2 {
		s.ranks = append(s.ranks, &rankState{End: End{End: wire.End{Rank: r}}, host: h})
	}
	s.watch.since = map[*hostState]time.Time{h: time.Unix(1, 0)}
	seen := func(code byte, since, now time.Duration) *inspect.Job {
		return &inspect.Job{Seen: int64(now), Ranks: []inspect.Rank{
			{Rank: 0, Waits: []waits.Waiting{{In: "Barrier #7", For: []int{1}, Since: int64(since)}}},
			{Rank: 1, PID: 77, Line: "main.load at data.go:81", Callers: []string{"main.main at main.go:1"},
				Process: inspect.Process{State: job.ProcState{Code: code, Signal: 19}}},
		}}
	}
	const sec = time.Second
	const is = "treerun: 1 of 2 ranks waits in Barrier #7 for "
	const stopped = "; rank 1 is in no call; its process 77 is stopped by SIGSTOP, in main.load at data.go:81\n" +
		"treerun: rank 1: called by main.main at main.go:1\n"
	for _, c := range []struct {
		name string
		act  func()
		want string
	}{
		{"stopped", func() { s.judge(seen('T', sec, 3*sec)) }, ""},
		{"stopped, in another wait", func() { s.judge(seen('T', 3*sec, 5*sec)) }, ""},
		{"stopped, confirmed", func() { s.judge(seen('T', 3*sec, 6*sec)) }, is + "3s" + stopped},
		{"over", func() { s.onSuspect(h, &wire.Suspect{}) }, "treerun: Barrier #7 continues after "},
		{"sleeps", func() {
			s.watch.since[h] = time.Unix(1, 0)
			s.judge(seen('S', sec, 9*sec))
		}, ""},
		{"the job has been continued", func() {
			s.lastContinue = time.Unix(5, 0)
			s.judge(seen('S', sec, 12*sec))
			s.lastContinue = time.Time{}
		}, ""},
		{"the job ends", func() {
			s.stopped = true
			s.judge(seen('S', sec, 12*sec))
			s.stopped = false
		}, ""},
		{"the rank has ended", func() {
			s.ranks[1].ended = true
			s.judge(seen('S', sec, 12*sec))
			s.ranks[1].ended = false
		}, ""},
		{"sleeps for long", func() {
			s.judge(seen('S', sec, 12*sec))
		}, is + "11s; rank 1 is in no call; its process 77 is sleeping, in main.load at data.go:81\n" +
			"treerun: rank 1: called by main.main at main.go:1\n"},
		{"the rank was lost", func() {
			s.ranks[1].ended = true
			s.onSuspect(h, &wire.Suspect{})
		}, ""},
	} {
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		c.act()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimLeft(string(b), "\x00")
		if !strings.HasPrefix(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s: printed\n%swant\n%s", c.name, text, c.want)
		}
	}
}
