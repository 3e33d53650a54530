package collective

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// brokenWorld is a World that loses this rank in its AllGather number at, counted from 1: before it takes part, or
// after.
type brokenWorld struct {
	*testutil.Hosted
	at     int
	before bool
}

var errBroken = errors.New("the exchange broke")

func (w brokenWorld) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	next := w.Round() + 1
	var all [][]byte
	var err error
	if next != w.at || !w.before {
		all, err = w.Hosted.AllGather(ctx, blob)
	}
	if next == w.at {
		w.Fail(w.Rank(), errBroken)
		return nil, errBroken
	}
	return all, err
}

// TestExchangeOfNewFails: each AllGather of New in turn fails on one rank, which is lost. All ranks get an error that
// names it, in New or, where that was done, in their next call. Nothing is left of the communicator.
func TestExchangeOfNewFails(t *testing.T) {
	for _, c := range []struct {
		hosts      []int
		cold, warm int // AllGathers of New: see TestNewGathers
	}{{testutil.OneHost(3), 5, 3}, {[]int{0, 1, 1, 2}, 7, 4}} {
		for _, warm := range []bool{false, true} {
			last := c.cold
			if warm {
				last = c.warm
			}
			for at := 1; at <= last; at++ {
				for _, by := range []int{0, len(c.hosts) - 1} {
					for _, before := range []bool{false, true} {
						t.Run(fmt.Sprintf("%v/warm=%v/%d/rank=%d/before=%v", c.hosts, warm, at, by, before), func(t *testing.T) {
							dir := t.TempDir()
							if warm {
								breakNew(t, c.hosts, dir, -1, 0, false)
							}
							start := held(t)
							breakNew(t, c.hosts, dir, by, at, before)
							leavesNothing(t, start)
						})
					}
				}
			}
		}
	}
}

// breakNew runs New on ranks of these hosts, and lets an AllGather of rank by fail, none for -1.
func breakNew(t *testing.T, hosts []int, dir string, by, at int, before bool) {
	t.Helper()
	for r, err := range testutil.NewJob(hosts...).Run(t, func(world *testutil.World) error {
		w := brokenWorld{Hosted: &testutil.Hosted{World: world}, before: before}
		if w.Rank() == by {
			w.at = at
		}
		c, err := New(t.Context(), w, WithTopoCache(dir))
		if err != nil {
			return err
		}
		err = Barrier(t.Context(), c)
		return errors.Join(err, c.Close())
	}) {
		var re *RankError
		switch {
		case by < 0 && err == nil:
		case !errors.As(err, &re) || re.Rank != by:
			t.Errorf("rank %d: %v, want an error that names rank %d", r, err, by)
		case r == by && (!errors.Is(err, ErrRankLost) || !strings.Contains(err.Error(), errBroken.Error())):
			t.Errorf("rank %d: %v, want that it is lost, and why", r, err)
		}
	}
}

// TestMeasuringLeavesNothing: a communicator whose New has measured the links holds as many descriptors and mappings as
// one whose New has not.
func TestMeasuringLeavesNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // mappings that New has forgotten would end
	for _, hosts := range [][]int{testutil.OneHost(3), {0, 1, 1, 2}} {
		dir := t.TempDir()
		var more [2][2]int
		for i := range more {
			before := held(t)
			if err := errors.Join(runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
				err := Barrier(t.Context(), c)
				if c.Rank() == 0 {
					now := heldNow(t)
					more[i] = [2]int{now[1] - before[1], now[2] - before[2]}
				}
				return errors.Join(err, Barrier(t.Context(), c))
			}, WithTopoCache(dir))...); err != nil {
				t.Fatal(err)
			}
		}
		if more[0] != more[1] {
			t.Errorf("hosts %v: %v descriptors and mappings where the links were measured, %v where not", hosts, more[0],
				more[1])
		}
	}
}

// TestNoteOfOneRank: rank 0 alone prints the note about a graph that has the ranks on other hosts.
func TestNoteOfOneRank(t *testing.T) {
	const ranks = 3
	given := topo.UniformGraph(ranks)
	given.Hosts = []int{0, 1, 1}
	var logs [ranks]record
	for r, err := range newFakeJob(ranks).run(t, func(w *fakeWorld) error {
		c, err := New(t.Context(), w, overMem, WithGraph(given),
			WithLogger(slog.New(slog.NewTextHandler(&logs[w.Rank()], nil))))
		if err != nil {
			return err
		}
		return c.Close()
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	for r := range logs {
		text, want := logs[r].String(), 0
		if r == 0 {
			want = 1
		}
		if strings.Count(text, "the ranks of the given graph are on 2 hosts") != want {
			t.Errorf("rank %d has printed %q, want %d notes", r, text, want)
		}
	}
}

// goneWorld is a World of which rank 1 has left.
type goneWorld struct{ World }

type goneError struct{}

func (goneError) Error() string { return "rank 1 has closed its world" }
func (goneError) AtFault() int  { return 1 }

func (goneWorld) AllGather(context.Context, []byte) ([][]byte, error) {
	return nil, fmt.Errorf("step: %w", goneError{})
}

// TestNewOnSomeRanks: New names the rank that has left in place of calling New, and has a hint.
func TestNewOnSomeRanks(t *testing.T) {
	_, err := New(t.Context(), goneWorld{InProcess(2)[0]})
	if e := (*RankError)(nil); !errors.As(err, &e) || e.Rank != 1 || !errors.Is(err, goneError{}) ||
		err.Error() != "collective: New on rank 0: rank 1 has closed its world (hint: all ranks make this call)" {
		t.Errorf("%v, want that of rank 1, without the steps, and a hint", err)
	}
}
