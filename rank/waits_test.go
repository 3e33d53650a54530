//go:build linux

package rank

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/waits"
)

// A process that is stopped in the middle of AllGathers is found within the stall timeout: all others name it and its
// state, and the results that they had gathered before were right. When it continues, it gets the same error.
func TestStoppedProcess(t *testing.T) {
	const victim, limit = 2, 700 * time.Millisecond
	for _, withLauncher := range []bool{true, false} {
		t.Run(fmt.Sprint("launcher ", withLauncher), func(t *testing.T) {
			t.Parallel()
			j := newTestJob(t, 5)
			j.stall = limit
			var ranks []*process
			if withLauncher {
				ranks = j.launchProcesses(func(int) string { return "gather" })
			} else {
				ranks = j.processesAtSeed("gather", job.Variable("stall-timeout")+"="+limit.String())
			}
			for _, p := range ranks {
				p.line() // in the loop
			}
			if err := ranks[victim].Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			check := func(r int) {
				line := ranks[r].line()
				process := fmt.Sprintf("is stopped by SIGSTOP (process %d)", ranks[victim].Process.Pid)
				for _, want := range []string{"stalled, at fault: 2 ", "in World.AllGather #", process} {
					if !strings.Contains(line, want) {
						t.Errorf("rank %d reports %q, not %q", r, line, want)
					}
				}
				if code := ranks[r].wait().ExitStatus(); code != 3 {
					t.Errorf("rank %d ended with code %d", r, code)
				}
			}
			for r := range ranks {
				if r != victim {
					check(r)
				}
			}
			if err := ranks[victim].Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			check(victim)
		})
	}
}

// A rank that does not come is named by the ranks whose time is up, by way of ranks that wait as well; the error of all
// of them is typed.
func TestLateRankIsNamed(t *testing.T) {
	for _, kind := range []error{ErrStalled, context.DeadlineExceeded} {
		testutil.WithLonger(t, 300*time.Millisecond, func(limit time.Duration) error { return nameLate(t, kind, limit) })
	}
}

// nameLate makes rank 5 late, and returns an error unless the errors of the others are right.
func nameLate(t *testing.T, kind error, limit time.Duration) error {
	j := newTestJob(t, 7)
	if kind == ErrStalled {
		j.stall = limit
	}
	j.start()
	errs := j.each(func(r int) error {
		if r == 5 {
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		if kind != ErrStalled && r == 3 {
			ctx, cancel = context.WithTimeout(t.Context(), limit)
		}
		defer cancel()
		for { // some may have all that they need for the first
			if _, err := j.worlds[r].AllGather(ctx, nil); err != nil {
				return err
			}
		}
	})
	for r, err := range errs {
		var e *Error
		switch {
		case r == 5:
		case !errors.As(err, &e), e.Rank != 5, kind == ErrStalled && !errors.Is(err, kind):
			return fmt.Errorf("rank %d: %v, want %v of rank 5", r, err, kind)
		case !strings.Contains(err.Error(), "is in no call of treerun"):
			return fmt.Errorf("rank %d: %q does not contain the state of rank 5", r, err)
		}
	}
	if kind != ErrStalled && !errors.Is(errs[3], kind) {
		return fmt.Errorf("rank 3: %v, want %v", errs[3], kind)
	}
	return nil
}

// A rank answers while its program computes, with its own wait and the states of other processes of its host.
func TestAskWaits(t *testing.T) {
	j := newTestJob(t, 3).start()
	w := j.worlds[1].Waits().NewWait("left", nil)
	w.Publish("Recv", time.Now(), []waits.Blocker{{Rank: 2, What: "to send"}})
	s, err := j.worlds[0].queries.query(t.Context(), 1, 2)
	if err != nil || len(s.Waits) != 1 || s.Waits[0].Scope != "left" || s.Waits[0].In != "Recv" ||
		fmt.Sprint(s.Waits[0].For) != "[2]" {
		t.Fatalf("%+v, %v", s, err)
	}
	if s.State == "" { // this process, as all ranks of this test
		t.Error("nothing is known of the process of rank 2")
	}
	w.Close()
	if s, err = j.worlds[0].queries.query(t.Context(), 1, 99); err != nil || len(s.Waits) != 0 || s.State != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzStatus(f *testing.F) {
	good, err := msgpack.Marshal(&waits.Status{Waits: []waits.Waiting{{Scope: "world", In: "Barrier", For: []int{0, 2}}},
		Busy: []string{"x"}, State: "running"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeStatus(b, 3)
		if err != nil {
			return
		}
		for _, w := range s.Waits {
			for _, r := range w.For {
				if r < 0 || r > 2 {
					t.Fatalf("rank %d of 3", r)
				}
			}
		}
	})
}
