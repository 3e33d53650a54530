//go:build linux

package rank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
)

// allFailed waits until all ranks but except know of a failure of rank bad, and checks the text.
func (j *testJob) allFailed(except, bad int, words string) {
	j.t.Helper()
	for r, w := range j.worlds {
		if r == except {
			continue
		}
		inTime(j.t, func() { <-w.Failed() })
		got, err := w.Failure()
		var e *Error
		if got != bad || !errors.Is(err, ErrFailed) || !errors.As(err, &e) || e.Self != r || err.Error() != words {
			j.t.Fatalf("rank %d: rank %d failed: %v; want rank %d: %s", r, got, err, bad, words)
		}
	}
}

// gatherFails checks that AllGather fails on all ranks but except because of
// rank bad. One that was under way may still complete.
func (j *testJob) gatherFails(except, bad int, kind error) {
	j.t.Helper()
	for r, err := range j.each(func(r int) error {
		if r == except {
			return nil
		}
		_, err := j.worlds[r].AllGather(context.Background(), []byte("x"))
		if err == nil {
			_, err = j.worlds[r].AllGather(context.Background(), []byte("x"))
		}
		return err
	}) {
		var e *Error
		if r != except && (!errors.Is(err, kind) || !errors.As(err, &e) || e.Rank != bad || e.Self != r) {
			j.t.Fatalf("rank %d: error %v, want one that rank %d %v", r, err, bad, kind)
		}
	}
}

func TestLauncherTellsHowARankEnded(t *testing.T) {
	for words, m := range map[string]job.Message{
		"killed by SIGKILL":                            {Signal: 9},
		"killed by signal 33":                          {Signal: 33},
		"exited with code 3":                           {Code: 3},
		"exited with code 4":                           {Code: 4, Closed: true},
		"exited with code 0 without closing its world": {},
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			j := newTestJob(t, 4).start()
			m.Kind, m.Rank = job.Exited, 2
			j.tell(&m)
			j.allFailed(2, 2, words)
			j.gatherFails(2, 2, ErrFailed)
			j.worlds[2].Close()
			if r, err := j.worlds[2].Failure(); r != -1 || err != nil {
				t.Fatalf("the rank itself thinks that rank %d failed: %v", r, err)
			}
		})
	}
}

// Gathers that wait are woken; the first cause is the one that counts.
func TestFailureEndsAGatherThatWaits(t *testing.T) {
	j := newTestJob(t, 5).start()
	time.AfterFunc(20*time.Millisecond, func() {
		j.tell(&job.Message{Kind: job.Exited, Rank: 3, Signal: 11})
		j.tell(&job.Message{Kind: job.Exited, Rank: 1, Code: 1})
	})
	j.gatherFails(3, 3, ErrFailed)
	j.allFailed(3, 3, "killed by SIGSEGV")
}

// The end of a rank without a notice, and without a launcher that could report more, is noticed by the ranks that were
// connected to it, which notify the others.
func TestLostConnectionsAreAFailureOnEveryRank(t *testing.T) {
	for _, size := range []int{2, 3, 9, 16} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			j := newTestJob(t, size).meetAtSeed()
			j.mustGather(constant(10))
			lost := size / 2
			j.worlds[lost].kill()
			j.allFailed(lost, lost, "ended without closing its world")
			j.gatherFails(lost, lost, ErrFailed)
		})
	}
}

// A rank may leave when its work is done. That is no failure, but no rank can gather without it.
func TestRankThatHasClosedIsNoFailure(t *testing.T) {
	for _, size := range []int{2, 5, 8} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			j := newTestJob(t, size).start()
			j.mustGather(constant(10))
			early := size - 1
			if err := j.worlds[early].Close(); err != nil {
				t.Fatal(err)
			}
			j.tell(&job.Message{Kind: job.Exited, Rank: early, Closed: true})
			j.gatherFails(early, early, ErrPeerClosed)
			j.gatherFails(early, early, ErrPeerClosed)
			for r, w := range j.worlds {
				if bad, err := w.Failure(); err != nil {
					t.Fatalf("rank %d: rank %d failed: %v", r, bad, err)
				}
			}
		})
	}
}

// Closing right after a gather does no harm to slower ranks.
func TestCloseRightAfterAGather(t *testing.T) {
	for range 20 {
		j := newTestJob(t, 6).start()
		for r, err := range j.each(func(r int) error {
			defer j.worlds[r].Close()
			return gatherOnce(j.worlds[r], constant(100_000))
		}) {
			if err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
	}
}

func TestCloseEndsAGatherOfItsOwn(t *testing.T) {
	j := newTestJob(t, 3).start()
	time.AfterFunc(20*time.Millisecond, func() { j.worlds[0].Close() })
	_, err := j.worlds[0].AllGather(t.Context(), nil)
	if !errors.Is(err, ErrClosed) {
		t.Fatalf("error %v", err)
	}
	if _, err := j.worlds[0].AllGather(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("after Close: error %v", err)
	}
	if err := j.worlds[0].Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
	j.gatherFails(0, 0, ErrPeerClosed)
}

// A gather that one rank gives up ends on all ranks, and every later one, too.
func TestGatherThatOneRankGivesUp(t *testing.T) {
	j := newTestJob(t, 4).start()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	errs := j.each(func(r int) error {
		switch r {
		case 1:
			_, err := j.worlds[1].AllGather(ctx, nil)
			return err
		case 2: // never comes
			return nil
		}
		_, err := j.worlds[r].AllGather(context.Background(), nil)
		return err
	})
	if !errors.Is(errs[1], context.Canceled) {
		t.Fatalf("rank 1: error %v", errs[1])
	}
	for _, r := range []int{0, 3} {
		if errs[r] == nil || !strings.Contains(errs[r].Error(), "rank 1 gave up AllGather: still waiting for rank ") ||
			!strings.Contains(errs[r].Error(), "context canceled") {
			t.Fatalf("rank %d: error %v", r, errs[r])
		}
	}
	// Rank 2 may have all blobs of this one; not of the next.
	for r, err := range j.each(func(r int) error {
		var err error
		for i := 0; i < 2 && err == nil; i++ {
			_, err = j.worlds[r].AllGather(context.Background(), nil)
		}
		return err
	}) {
		if err == nil {
			t.Fatalf("rank %d gathers again", r)
		}
	}
}

func TestLauncherThatGoes(t *testing.T) {
	j := newTestJob(t, 3).start()
	for _, c := range j.toRanks {
		c.Close()
	}
	j.allFailed(-1, -1, "the launcher is gone")
	inTime(t, func() { j.close() }) // which waits for the callback
	if len(j.gone) != 3 {
		t.Fatalf("ranks %v received it", j.gone)
	}
}

func TestLauncherThatTalksNonsense(t *testing.T) {
	j := newTestJob(t, 2).start()
	for _, c := range j.toRanks {
		c.Write(bytes.Repeat([]byte{0xff}, 8))
	}
	inTime(t, func() { <-j.worlds[0].Failed() })
	if _, err := j.worlds[0].Failure(); !strings.Contains(err.Error(), "protocol error of the launcher") {
		t.Fatal(err)
	}
}

func TestRankThatEndsBeforeItJoined(t *testing.T) {
	for words, m := range map[string]job.Message{
		"rank 2 exited with code 0 before it joined": {},
		"rank 2 killed by SIGBUS before it joined":   {Signal: 7},
	} {
		t.Run(words, func(t *testing.T) {
			j := newTestJob(t, 4)
			ends := j.launch()
			m.Kind, m.Rank = job.Exited, 2
			time.AfterFunc(10*time.Millisecond, func() { j.tell(&m) })
			for r, err := range j.each(func(r int) error {
				if r == 2 {
					return ends[r].Close()
				}
				_, err := start(t.Context(), j.config(r, ends[r]))
				return err
			}) {
				if r != 2 && (err == nil || !strings.Contains(err.Error(), words) || !errors.Is(err, ErrFailed)) {
					t.Fatalf("rank %d: error %v, want %s", r, err, words)
				}
			}
		})
	}
}

func TestStartTimeoutNamesWhoIsMissing(t *testing.T) {
	t.Parallel()
	testutil.WithLonger(t, time.Second, func(limit time.Duration) error {
		j := newTestJob(t, 7)
		ends := j.launch()
		errs := j.each(func(r int) error {
			if r != 0 && r != 4 {
				return ends[r].Close()
			}
			cfg := j.config(r, ends[r])
			cfg.parsed.StartTimeout = limit
			_, err := start(t.Context(), cfg)
			return err
		})
		want := fmt.Sprintf("ranks 1-3,5,6 of 7 have not joined: context deadline exceeded: %v have passed", limit)
		for _, r := range []int{0, 4} {
			if errs[r] == nil || !strings.Contains(errs[r].Error(), want) || !errors.Is(errs[r], context.DeadlineExceeded) {
				return fmt.Errorf("rank %d: error %w\nwant %s", r, errs[r], want)
			}
		}
		return nil
	})
}

// While ranks are missing, rank 0 reports it from time to time, in a line that names them and where they are expected;
// without rank 0, each of the others does.
func TestMissingRanksAreReported(t *testing.T) {
	for _, c := range []struct {
		there, report []int
		missing       string
	}{
		{there: []int{0, 2, 4}, report: []int{0}, missing: "1,3"},
		{there: []int{0}, report: []int{0}, missing: "1-4"},
		{there: []int{2}, report: []int{2}, missing: "0,1,3,4"},
	} {
		t.Run(c.missing, func(t *testing.T) {
			t.Parallel()
			testutil.WithLonger(t, 2*time.Second, func(limit time.Duration) error {
				return reportsOfMissing(t, limit, c.there, c.report, c.missing)
			})
		})
	}
}

// reportsOfMissing starts only some ranks of five, and compares their reports until their time is up.
func reportsOfMissing(t *testing.T, limit time.Duration, there, report []int, missing string) (wrong error) {
	j := newTestJob(t, 5)
	seed := testutil.FreeAddress(t)
	logs := make([]bytes.Buffer, j.size) // a handler writes one line at a time
	errs := j.each(func(r int) error {
		if !slices.Contains(there, r) {
			return context.DeadlineExceeded
		}
		cfg := j.seedConfig(r, seed)
		cfg.parsed.StartTimeout, cfg.waitReport = limit, limit/4
		cfg.log = slog.New(slog.NewTextHandler(&logs[r], nil))
		_, err := start(t.Context(), cfg)
		return err
	})
	complain := func(format string, args ...any) { wrong = errors.Join(wrong, fmt.Errorf(format, args...)) }
	for r, err := range errs {
		if !errors.Is(err, context.DeadlineExceeded) {
			complain("rank %d: error %w", r, err)
		}
		if !slices.Contains(report, r) {
			continue
		}
		lines := strings.Split(strings.TrimSpace(logs[r].String()), "\n")
		want := fmt.Sprintf(`level=WARN msg="treerun: waiting for ranks that have not joined" rank=%d `+
			`size=5 missing_ranks=%s waited=`, r, missing)
		last := lines[len(lines)-1]
		if !strings.Contains(last, want) || !strings.Contains(last, " seed="+seed) {
			complain("rank %d reports\n%s\nwant\n%s... seed=%s", r, last, want, seed)
		}
		why := fmt.Sprintf("-> rank 0 (%s): connection refused", seed)
		if strings.Contains(last, why) != (r != 0) {
			complain("rank %d reports\n%s\nwant, from others than rank 0, %s", r, last, why)
		}
	}
	if slices.Equal(there, []int{0, 2, 4}) {
		for _, r := range []int{2, 4} {
			if strings.Contains(logs[r].String(), "missing_ranks=1,3 ") {
				complain("rank %d repeats the text of rank 0:\n%s", r, &logs[r])
			}
		}
	}
	return wrong
}

// A connection ends between ranks whose launcher reports no end: the error names both ranks and the error of the
// system.
func TestConnectionThatEndsBetweenLiveRanks(t *testing.T) {
	t.Parallel()
	j := newTestJob(t, 3).start()
	j.mustGather(constant(10))
	j.worlds[2].mesh.Close()
	for r, w := range j.worlds[:2] {
		inTime(t, func() { <-w.Failed() })
		bad, err := w.Failure()
		text := fmt.Sprint(err)
		if bad != 2 || !errors.Is(err, ErrFailed) || !strings.HasPrefix(text, "lost its connection to rank ") ||
			!strings.Contains(text, ": EOF (the launcher knows of no process") {
			t.Errorf("rank %d: rank %d failed: %v", r, bad, err)
		}
	}
}
