package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// TestRankLost: while the other ranks wait for a rank, the World learns that it has ended. All calls, in flight and
// later, return its cause.
func TestRankLost(t *testing.T) {
	const size, lost = 4, 2
	errs := runRanks(t, size, func(w *fakeWorld, c *Comm) error {
		x := make([]float64, 100)
		if err := AllReduce(t.Context(), c, x, x, Sum); err != nil {
			return err
		}
		if c.Rank() == lost {
			time.Sleep(20 * time.Millisecond)
			w.Fail(lost, errors.New("killed by SIGKILL"))
			return nil
		}
		first := AllReduce(t.Context(), c, x, x, Sum)
		again := Barrier(t.Context(), c)
		if first == nil || again == nil {
			t.Errorf("rank %d: calls without rank %d succeeded", c.Rank(), lost)
		}
		return errors.Join(first, again)
	}, WithGraph(topo.UniformGraph(size)))
	for r, err := range errs {
		var re *RankError
		switch {
		case r == lost:
		case !errors.As(err, &re), re.Rank != lost, !errors.Is(err, ErrRankLost), !strings.Contains(err.Error(), "SIGKILL"):
			t.Errorf("rank %d: %v, want ErrRankLost of rank %d with its cause", r, err, lost)
		}
	}
}

// TestContentsOfSurvivors: ranks make random calls one after the other; one of them is lost, aborts or closes at a
// random moment. Until then the results of all calls are correct and complete, and no call returns nil with other
// results.
func TestContentsOfSurvivors(t *testing.T) {
	stopsOf := map[error]func(w *fakeWorld, c *Comm, by int){
		ErrRankLost:   func(w *fakeWorld, _ *Comm, by int) { w.Fail(by, errors.New("killed by SIGKILL")) },
		ErrAborted:    func(_ *fakeWorld, c *Comm, _ int) { c.Abort(errors.New("enough")) },
		ErrPeerClosed: func(_ *fakeWorld, c *Comm, _ int) { c.Close() },
	}
	for size := 2; size <= 4; size++ {
		for kind, stop := range stopsOf {
			for range 4 {
				seed := rand.Uint64()
				own := rand.New(rand.NewPCG(seed, 1))
				by, after := own.IntN(size), time.Duration(own.IntN(20_000))*time.Microsecond
				errs := runRanks(t, size, func(w *fakeWorld, c *Comm) error {
					rng := rand.New(rand.NewPCG(seed, 0))
					for i := 0; ; i++ {
						if i == 1 && c.Rank() == by {
							defer time.AfterFunc(after, func() { stop(w, c, by) }).Stop()
						}
						tr := randomTrial(c, rng)
						tr.reset()
						if err := tr.run(t.Context()); err != nil {
							return err
						}
						if err := tr.check(); err != nil {
							t.Errorf("%d ranks, seed %d: call %d of rank %d returned nil, and %v", size, seed, i, c.Rank(), err)
						}
					}
				}, WithGraph(topo.UniformGraph(size)))
				for r, err := range errs {
					var re *RankError
					switch {
					// ErrClosed: closed between two calls
					case r == by && (errors.Is(err, ErrClosed) || kind == ErrRankLost):
					case !errors.As(err, &re) || re.Rank != by || !errors.Is(err, kind):
						t.Errorf("%d ranks, seed %d: rank %d: %v, want %q of rank %d", size, seed, r, err, kind, by)
					}
				}
			}
		}
	}
}

// TestRankLostDuringNew: a rank ends before it calls New; the others do not wait
// for it.
func TestRankLostDuringNew(t *testing.T) {
	job := newFakeJob(3)
	errs := job.run(t, func(w *fakeWorld) error {
		if w.Rank() == 1 {
			time.Sleep(20 * time.Millisecond)
			w.Fail(1, errors.New("exited with code 3"))
			return nil
		}
		_, err := New(t.Context(), w, overMem, WithTopoCache(""))
		return err
	})
	for _, r := range []int{0, 2} {
		var re *RankError
		if !errors.As(errs[r], &re) || re.Rank != 1 || !errors.Is(errs[r], ErrRankLost) ||
			!strings.Contains(errs[r].Error(), "exited with code 3") {
			t.Errorf("rank %d: %v, want ErrRankLost of rank 1 with its cause", r, errs[r])
		}
	}
}

// TestClosedEarly: a rank closes its communicator, others continue to call.
func TestClosedEarly(t *testing.T) {
	errs := runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		return Barrier(t.Context(), c)
	}, WithGraph(topo.UniformGraph(3)))
	for _, r := range []int{0, 2} {
		var re *RankError
		if !errors.As(errs[r], &re) || re.Rank != 1 || !errors.Is(errs[r], ErrPeerClosed) {
			t.Errorf("rank %d: %v, want ErrPeerClosed of rank 1", r, errs[r])
		}
	}
}

// TestContext: the deadline of one rank's call passes. That rank gets the context's error, and the errors of all ranks
// name rank 2, for which they waited in the end: a rank that waits as well is not at fault.
func TestContext(t *testing.T) {
	errs := runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		ctx := t.Context()
		switch c.Rank() {
		case 2: // comes when it is over
			for over := false; !over; time.Sleep(time.Millisecond) {
				_, over = c.in.Endpoint.Aborted()
			}
		case 1:
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 30*time.Millisecond)
			defer cancel()
		}
		return Barrier(ctx, c)
	}, WithGraph(topo.UniformGraph(3)))
	if !errors.Is(errs[1], context.DeadlineExceeded) {
		t.Errorf("rank 1: %v, want its context's error", errs[1])
	}
	for r, err := range errs {
		var re *RankError
		if !errors.As(err, &re) || re.Rank != 2 || !errors.Is(err, ErrCanceled) {
			t.Errorf("rank %d: %v, want ErrCanceled of rank 2", r, err)
			continue
		}
		text := err.Error()
		for _, want := range []string{"rank 1 gave up in Barrier #1", "is in no call of treerun"} {
			if !strings.Contains(text, want) {
				t.Errorf("rank %d: %q does not say %q", r, text, want)
			}
		}
		if strings.Contains(text, "\n") || strings.Count(text, context.DeadlineExceeded.Error()) != 1 {
			t.Errorf("rank %d: %q, want one line that names the end of the context once", r, text)
		}
	}
}

// TestSettingsDiffer: New fails on all ranks when the options of one differ.
func TestSettingsDiffer(t *testing.T) {
	job := newFakeJob(3)
	errs := job.run(t, func(w *fakeWorld) error {
		slots := 8
		if w.Rank() == 1 {
			slots = 4
		}
		_, err := New(t.Context(), w, overMem, WithTopoCache(""), WithSlots(slots, 4096))
		return err
	})
	for r, err := range errs {
		if !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), "ranks 0,2") ||
			!strings.Contains(err.Error(), "on the slots of a link (WithSlots): ") ||
			!strings.Contains(err.Error(), "; 4 of 4096 bytes on rank 1") || strings.Contains(err.Error(), "graph") {
			t.Errorf("rank %d: %v, want both values and their ranks, and no other setting", r, err)
		}
	}
}

// TestPeerEndsDuringNew: a connection is refused before the World learns that the peer has ended. New returns the
// cause, and the rank.
func TestPeerEndsDuringNew(t *testing.T) {
	refuse := func(_ context.Context, w World, _ func(context.Context, []byte) ([][]byte, error), _ string,
		_ transport.Layout) (transport.Endpoint, error) {
		if w.Rank() == 0 {
			time.AfterFunc(50*time.Millisecond, func() { w.(*fakeWorld).Fail(0, errors.New("killed by SIGKILL")) })
		}
		return nil, fmt.Errorf("joining rank 0: %w", syscall.ECONNREFUSED)
	}
	for r, err := range testutil.NewJob(testutil.OneHost(2)...).Run(t, func(w *testutil.World) error {
		_, err := New(t.Context(), &fakeWorld{World: w}, WithGraph(topo.UniformGraph(2)),
			func(c *setup.Config) { c.Connect = refuse })
		return err
	}) {
		var re *RankError
		if !errors.As(err, &re) || re.Rank != 0 || !errors.Is(err, ErrRankLost) || !strings.Contains(err.Error(), "SIGKILL") {
			t.Errorf("rank %d: %v, want ErrRankLost of rank 0 with its cause", r, err)
		}
	}
}
