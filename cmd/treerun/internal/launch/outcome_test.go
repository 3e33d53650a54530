//go:build linux

package launch

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

func TestFirstFailure(t *testing.T) {
	fine := End{End: wire.End{Rank: 0}, Order: 1}
	exit3 := End{End: wire.End{Rank: 1, Code: 3}, Order: 3}
	for _, c := range []struct {
		name string
		ends []End
		code int // 0: none failed
	}{
		{"none", nil, 0},
		{"all fine", []End{fine, {End: wire.End{Rank: 1}, Order: 2}}, 0},
		{"one", []End{fine, exit3}, 3},
		{"the first in time, not by rank", []End{{End: wire.End{Rank: 0, Code: 9}, Order: 5}, exit3}, 3},
		{"of the same moment, the lowest rank", []End{{End: wire.End{Rank: 2, Code: 9}, Order: 3}, exit3}, 3},
		{"of the same moment, the crash", []End{{End: wire.End{Rank: 2, Signal: syscall.SIGKILL}, Order: 3}, exit3}, 137},
		{"a broken pipe is no crash", []End{{End: wire.End{Rank: 2, Signal: syscall.SIGPIPE}, Order: 3}, exit3}, 3},
		{"a crash on another host, of which the news comes a little later",
			[]End{exit3, {End: wire.End{Rank: 2, Signal: syscall.SIGSEGV}, Order: 4, Host: "b",
				After: 20 * time.Millisecond}}, 139},
		{"a host that is lost, likewise",
			[]End{exit3, {End: wire.End{Rank: 2, Code: 125}, Order: 4, Lost: true, Host: "b"}}, 125},
		{"a crash on another host, much later",
			[]End{exit3, {End: wire.End{Rank: 2, Signal: syscall.SIGSEGV}, Order: 4, Host: "b", After: time.Second}}, 3},
		{"a crash on another host that treerun brought about",
			[]End{exit3, {End: wire.End{Rank: 2, Signal: syscall.SIGKILL, Stopped: true}, Order: 4, Host: "b"}}, 3},
		{"a crash does not come before an earlier exit",
			[]End{{End: wire.End{Rank: 0, Signal: syscall.SIGSEGV}, Order: 4}, exit3}, 3},
		{"what treerun stopped did not fail",
			[]End{{End: wire.End{Rank: 0, Signal: syscall.SIGTERM, Stopped: true}, Order: 2}, exit3}, 3},
		{"a failure that was only reported", []End{fine, {End: wire.End{Rank: 1}, Order: 2, Failure: "x"}}, 1},
		{"what exits with another code counts more", []End{exit3, {End: wire.End{Rank: 0}, Order: 2, Failure: "x"}}, 3},
		{"a crash in the same moment", []End{{End: wire.End{Rank: 0}, Order: 2, Failure: "x"},
			{End: wire.End{Rank: 1, Signal: syscall.SIGSEGV}, Order: 2}}, 139},
		{"the report of a stopped rank", []End{{End: wire.End{Rank: 0, Stopped: true}, Order: 2, Failure: "x"}}, 0},
		{"only stopped ones", []End{{End: wire.End{Rank: 0, Signal: syscall.SIGTERM, Stopped: true}, Order: 2}}, 0},
	} {
		first, ok := firstFailure(c.ends)
		if ok != (c.code != 0) || first.exitCode() != c.code {
			t.Errorf("%s: %+v, %v; want code %d", c.name, first, ok, c.code)
		}
	}
}

// The cause does not depend on the order in which the ends are listed.
func TestFirstFailureIsTheSameInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "ranks")
		ends := make([]End, n)
		for i := range ends {
			ends[i] = End{Order: rapid.IntRange(1, 3).Draw(t, "order"), End: wire.End{
				Rank: i, Code: rapid.IntRange(0, 2).Draw(t, "code"),
				Signal:  syscall.Signal(rapid.SampledFrom([]int{0, 0, 9, 13}).Draw(t, "signal")),
				Stopped: rapid.Bool().Draw(t, "stopped"),
			}}
		}
		first, ok := firstFailure(ends)
		rand.Shuffle(n, func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		if again, okAgain := firstFailure(ends); again != first || okAgain != ok {
			t.Fatalf("%+v, then %+v", first, again)
		}
		for _, e := range ends {
			if e.failed() && !e.Stopped && (!ok || e.Order < first.Order) {
				t.Fatalf("%+v failed before %+v", e, first)
			}
		}
	})
}

func TestFailureText(t *testing.T) {
	ends := []End{
		{End: wire.End{Rank: 0, Code: 1}, Order: 4},
		{End: wire.End{Rank: 1, PID: 4711, Signal: syscall.SIGKILL}, Order: 3,
			After: 1234 * time.Millisecond, Host: "box"},
		{End: wire.End{Rank: 2, Code: 1}, Order: 5}, {End: wire.End{Rank: 3, Code: 0}, Order: 5},
		{End: wire.End{Rank: 4, Signal: syscall.SIGTERM, Stopped: true}, Order: 6},
		{End: wire.End{Rank: 5, Stopped: true}, Order: 6},
		{End: wire.End{Rank: 6}, Order: 1},
	}
	f := failure{first: ends[1], unclosed: exitedUnclosed(ends, ends[1]), ends: ends,
		stderr: []string{"one", "two"}}
	want := `rank 1 failed first: it was killed by SIGKILL 1.2s after the start
    host    box
    pid     4711
    hint    treerun did not send it; out of memory? (see dmesg)
    before  rank 6 had exited with code 0 before it joined the job
    after   2 other ranks failed after it (0,2), 2 ranks stopped by treerun (4,5)
    stderr  ended with:
      | one
      | two`
	if got := f.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExitedUnclosed(t *testing.T) {
	failure := End{End: wire.End{Rank: 0, Code: 1}, Order: 5}
	ends := []End{
		failure,
		{End: wire.End{Rank: 5}, Order: 4, Joined: true},
		{End: wire.End{Rank: 1}, Order: 4},
		{End: wire.End{Rank: 2}, Order: 4, Joined: true, Closed: true}, // in good order
		{End: wire.End{Rank: 3}, Order: 6},                             // later
		{End: wire.End{Rank: 4, Stopped: true}, Order: 4},
	}
	var ranks []int
	for _, e := range exitedUnclosed(ends, failure) {
		ranks = append(ranks, e.Rank)
	}
	if !slices.Equal(ranks, []int{1, 5}) {
		t.Errorf("early leavers: %v, want 1 and 5", ranks)
	}
}

// The line of treerun about the debugger is none of the last lines of a rank.
func TestLastLinesOfDebugged(t *testing.T) {
	r := &rankState{End: End{End: wire.End{Rank: 1}}}
	s := output.NewStream(nil, 1, output.Options{})
	r.streams[wire.Stderr] = s
	_, _ = s.Tail.Write([]byte("a\nb\ntreerun: rank 1 is in the debugger: dlv connect 127.0.0.1:9\nc\n"))
	for limit, want := range map[int]string{1: "c", 2: "b c", 9: "a b c"} {
		if got := strings.Join(r.lastLines(wire.Stderr, limit), " "); got != want {
			t.Errorf("the last %d lines are %q, want %q", limit, got, want)
		}
	}
}

func TestTimeoutText(t *testing.T) {
	s := new(supervisor)
	for i := range 20 {
		r := &rankState{End: End{End: wire.End{Rank: i, PID: 10 + i}}, running: true}
		for k := range r.streams {
			r.streams[k] = output.NewStream(nil, i, output.Options{})
		}
		s.ranks = append(s.ranks, r)
	}
	_, _ = s.ranks[0].streams[wire.Stdout].Tail.Write([]byte("step 7\n"))
	list := s.stragglers()
	list[0] = "rank 0 (pid 10) " + s.ranks[0].lastOutput(time.Now().Add(1500*time.Millisecond))
	got := timeoutText(time.Minute, 32, list, false)
	for _, want := range []string{
		"the time limit of 1m0s is over: 20 of 32 ranks still ran\n    rank 0 (pid 10) had last printed 1.5s " +
			"before, on stdout: step 7\n",
		"\n    rank 15 (pid 25) had printed nothing\n    and 4 more",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestSignalNames(t *testing.T) {
	if got := (End{End: wire.End{Signal: syscall.SIGBUS}}).outcome(); got != "was killed by SIGBUS" {
		t.Error(got)
	}
	if got := (End{End: wire.End{Signal: 40}}).outcome(); got != "was killed by signal 40" {
		t.Error(got)
	}
}

// A further signal to stop counts as a repetition only after a while.
func TestStopSignalTwice(t *testing.T) {
	s := &supervisor{}
	if s.noteStopSignal() {
		t.Error("the first signal is taken for a repetition")
	}
	s.firstStop = time.Now().Add(time.Hour)
	if s.noteStopSignal() {
		t.Error("a signal at the same moment is taken for a repetition")
	}
	s.firstStop = time.Now().Add(-2 * sameSignal)
	if !s.noteStopSignal() {
		t.Error("a later signal is not taken for a repetition")
	}
}

// TestLastWords: the line about a lost rank repeats its panic, which may have a long traceback, else its last lines.
func TestLastWords(t *testing.T) {
	trace := "starts\npanic: first\n\ngoroutine 1 [running]:\nmain.load(...)\n\t/a/b.go:7\nmain.main()\nexit status 2"
	for text, want := range map[string]string{
		trace:            "panic: first\ngoroutine 1 [running]:\nmain.load(...)",
		"a\nb\nc\nd":     "b\nc\nd",
		"a panic: no\nb": "a panic: no\nb",
		"fatal error: all goroutines are asleep - deadlock!\n": "fatal error: all goroutines are asleep - deadlock!",
		"panic: recovered\nx\npanic: last\ny":                  "panic: last\ny",
	} {
		if got := strings.Join(lastWords(strings.Split(text, "\n")), "\n"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
