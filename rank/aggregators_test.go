package rank

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/docs/longer"
	"github.com/treerun/treerun/rank/job"
)

// assisted makes the Worlds of a job of some ranks and, behind them, aggregators.
func assisted(t *testing.T, size, aggregators int, hosts []int) *testJob {
	t.Helper()
	j := newTestJob(t, size+aggregators)
	ends := j.launch()
	errs := j.each(func(r int) (err error) {
		f := &job.File{
			Version: job.FileVersion, JobID: j.id, Secret: j.secret, Rank: r, Size: size, Aggregators: aggregators,
			Host: "here", Hosts: hosts, ControlFD: 3,
		}
		for q, h := range hosts {
			if h == hosts[r] && q < size {
				f.LocalSize++
			}
			if h == hosts[r] && q < r {
				f.LocalRank++
			}
		}
		if err := f.Validate(); err != nil {
			return err
		}
		cfg := fromFile(f, ends[r])
		cfg.options = defaultOptions()
		cfg.log, cfg.launcherGone = j.log, func(error) {}
		j.worlds[r], err = start(t.Context(), cfg)
		return err
	})
	t.Cleanup(j.close)
	for r, err := range errs {
		if err != nil {
			t.Fatalf("member %d: %v", r, err)
		}
	}
	return j
}

// Ranks do not see aggregators but by name: their World has the size that was asked
// for, and their AllGathers are among them. Aggregators go along, and hear only of
// AllGatherWhole.
func TestAggregatorsFollow(t *testing.T) {
	for _, hosts := range [][]int{make([]int, 5), {0, 0, 1, 2, 1}} {
		j := assisted(t, 3, 2, hosts)
		const rounds = 4
		for r, err := range j.each(func(r int) error {
			w := j.worlds[r]
			if w.Size() != 3 || w.Aggregators() != 2 || w.Aggregator() != max(r-3, -1) || w.Rank() != r {
				return fmt.Errorf("rank %d of %d, aggregator %d of %d", w.Rank(), w.Size(), w.Aggregator(), w.Aggregators())
			}
			for round := range rounds {
				if r < 3 {
					for size := range round {
						if err := gatherOnce(w, constant(size)); err != nil {
							return err
						}
					}
				}
				whole := w.Follow
				if r < 3 {
					whole = func(ctx context.Context) ([][]byte, error) {
						return w.AllGatherWhole(ctx, pattern(r, 10+round))
					}
				}
				all, err := whole(t.Context())
				if err != nil || len(all) != 5 {
					return fmt.Errorf("round %d: %d blobs, %w", round, len(all), err)
				}
				for q, b := range all {
					want := pattern(q, 10+round)
					if q >= 3 {
						want = nil
					}
					if string(b) != string(want) {
						return fmt.Errorf("round %d: %d bytes of member %d", round, len(b), q)
					}
				}
				// Then they speak, too.
				all, err = w.AllGatherWhole(t.Context(), pattern(r, 3))
				if err != nil || string(all[4]) != string(pattern(4, 3)) {
					return fmt.Errorf("round %d: the aggregator says %x, %w", round, all, err)
				}
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("hosts %v, member %d: %v", hosts, r, err)
			}
		}
	}
}

// Ranks that call AllGather while others call AllGatherWhole all learn it.
func TestDifferentGathers(t *testing.T) {
	j := assisted(t, 2, 1, make([]int, 3))
	for r, err := range j.each(func(r int) (err error) {
		switch w := j.worlds[r]; r {
		case 0:
			_, err = w.AllGather(t.Context(), []byte("a"))
		case 1:
			_, err = w.AllGatherWhole(t.Context(), []byte("b"))
		default:
			_, err = w.Follow(t.Context())
		}
		return err
	}) {
		if !errors.Is(err, errGathers) {
			t.Errorf("member %d: %v", r, err)
		}
	}
}

// The end of an aggregator is a failure that names it and its host, and no rank.
func TestAggregatorFails(t *testing.T) {
	j := assisted(t, 2, 1, make([]int, 3))
	j.tell(&job.Message{Kind: job.Exited, Rank: 2, Signal: 9})
	for r, err := range j.each(func(r int) error {
		if r == 2 {
			return nil
		}
		w := j.worlds[r]
		<-w.Failed()
		who, err := w.Failure()
		if who != -1 || !errors.Is(err, ErrFailed) || err.Error() != "aggregator 0 on host here: killed by SIGKILL" {
			return fmt.Errorf("failure of %d: %w", who, err)
		}
		_, err = w.AllGather(t.Context(), nil)
		if e := (*Error)(nil); !errors.As(err, &e) || e.Rank != -1 || !strings.Contains(err.Error(), "aggregator 0 on host here: killed") {
			return fmt.Errorf("AllGather: %w", err)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// An aggregator that is lost, or does not come, while Init still runs is named as what
// it is, and so are several, beside ranks that have not joined either.
func TestAggregatorsMissing(t *testing.T) {
	for _, c := range []struct {
		what              string
		size, aggregators int
		come              int // members that do, the first ones
		tell              *job.Message
		want              string
	}{
		{"lost", 2, 1, 2, &job.Message{Kind: job.Exited, Rank: 2, Signal: 9}, "aggregator 0: killed by SIGKILL before it joined"},
		{"late", 1, 1, 1, nil, "aggregator 0: has not joined"},
		{"several", 2, 2, 1, nil, "rank 1 of 2 and aggregators 0,1 of 2 have not joined"},
	} {
		t.Run(c.what, func(t *testing.T) {
			first := 300 * time.Millisecond
			if c.tell != nil {
				first = deadline
			}
			longer.With(t, first, func(limit time.Duration) error {
				j := newTestJob(t, c.size+c.aggregators)
				ends := j.launch()
				if c.tell != nil {
					j.tell(c.tell)
				}
				errs := make([]error, c.come)
				var all sync.WaitGroup
				for r := range c.come {
					all.Go(func() {
						cfg := fromFile(&job.File{
							Version: job.FileVersion, JobID: j.id, Secret: j.secret, Rank: r, Size: c.size, Aggregators: c.aggregators,
							Host: "here", Hosts: make([]int, j.size), LocalRank: r, LocalSize: c.size, ControlFD: 3,
						}, ends[r])
						cfg.options = defaultOptions()
						cfg.startTimeout = limit
						cfg.log, cfg.launcherGone = j.log, func(error) {}
						_, errs[r] = start(t.Context(), cfg)
					})
				}
				all.Wait()
				for r, err := range errs {
					if e := (*Error)(nil); !errors.As(err, &e) || e.Rank != -1 || !strings.Contains(err.Error(), c.want) {
						return fmt.Errorf("rank %d: %w, want %q of -1", r, err, c.want)
					}
				}
				return nil
			})
		})
	}
}

// One at a time in a process has a turn, and who waits for it gives up when told to.
func TestTurn(t *testing.T) {
	w := assisted(t, 2, 1, make([]int, 3)).worlds[0]
	var having, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			release, err := w.Turn(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), having.Add(1)))
			runtime.Gosched()
			having.Add(-1)
			release()
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d had a turn at once", most.Load())
	}
	release, err := w.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	end(cause)
	if _, err := w.Turn(over); !errors.Is(err, cause) {
		t.Errorf("a second turn: %v", err)
	}
	release()
	if release, err = w.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
}
