package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
)

// TestSplit halves a communicator by parity, against the order of the ranks,
// and halves one half again; all of them work side by side.
func TestSplit(t *testing.T) {
	const size = 7
	mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
		color := c.Rank() % 2
		if c.Rank() == size-1 {
			color = -1
		}
		half, err := c.Split(t.Context(), color, -c.Rank())
		if err != nil {
			return err
		}
		if color < 0 {
			if half != nil {
				return errors.New("a communicator for a negative color")
			}
			return Barrier(t.Context(), c)
		}
		x := []int32{int32(c.Rank())}
		all := make([]int32, half.Size())
		if err := AllGather(t.Context(), half, x, all); err != nil {
			return err
		}
		want := []int32{4, 2, 0}
		if color == 1 {
			want = []int32{5, 3, 1}
		}
		if fmt.Sprint(all) != fmt.Sprint(want) {
			return fmt.Errorf("color %d has ranks %v, want %v", color, all, want)
		}
		alone, err := half.Split(t.Context(), half.Rank(), 0)
		if err != nil {
			return err
		}
		if alone.Size() != 1 || alone.Rank() != 0 {
			return fmt.Errorf("alone, but rank %d of %d", alone.Rank(), alone.Size())
		}
		return errors.Join(alone.Close(), half.Close(), Barrier(t.Context(), c))
	})
}

// TestAbort: the cause of an Abort reaches all ranks.
func TestAbort(t *testing.T) {
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			c.Abort(errors.New("loss is NaN\nin layer 3"))
		}
		return Barrier(t.Context(), c)
	}) {
		var re *RankError
		if !errors.Is(err, ErrAborted) || !errors.As(err, &re) || re.Rank != 1 ||
			!strings.HasSuffix(err.Error(), ": rank 1 aborted the communicator: loss is NaN; in layer 3") {
			t.Errorf("rank %d: %v, want ErrAborted of rank 1", r, err)
		}
	}
}

// Ranks make a communicator without the other ranks, in the given order, and another one that overlaps it.
func TestSub(t *testing.T) {
	mustRun(t, 6, func(_ *fakeWorld, c *Comm) error {
		for _, ranks := range [][]int{{4, 1, 3}, {1, 3}, {4, 1, 3}, {5}} {
			if !slices.Contains(ranks, c.Rank()) {
				continue
			}
			part, err := c.Sub(t.Context(), ranks)
			if err != nil {
				return err
			}
			got := make([]int, part.Size())
			if err := AllGather(t.Context(), part, []int{c.Rank()}, got); err != nil {
				return err
			}
			if !slices.Equal(got, ranks) || !strings.HasPrefix(part.Name(), c.Name()+"/sub#") {
				return fmt.Errorf("%s of %v holds %v", part.Name(), ranks, got)
			}
			if err := part.Close(); err != nil {
				return err
			}
		}
		for want, ranks := range map[string][]int{"no rank 6: the highest is 5": {6}, "rank 2 is given twice": {2, 2},
			"no ranks are given": nil, "this rank is not among": {(c.Rank() + 1) % 6}} {
			if _, err := c.Sub(t.Context(), ranks); !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%v: %v", ranks, err)
			}
		}
		return Barrier(t.Context(), c)
	})
}

// Calls and messages on a copy do not match those on the original.
func TestDup(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		other, err := c.Dup(t.Context(), WithName("library"))
		if err != nil {
			return err
		}
		peer := 1 - c.Rank()
		m, err := StartRecv(c, make([]int32, 1), peer, 7)
		if err != nil {
			return err
		}
		x := []int64{0} // of another type and length: an ErrMismatch if the two met
		if err := exchanged(t.Context(), other, []int64{5}, peer, x, peer, 7); err != nil || x[0] != 5 {
			return fmt.Errorf("%v, %w", x, err)
		}
		if other.Name() != "library" || other.Rank() != c.Rank() {
			return fmt.Errorf("rank %d of %s", other.Rank(), other.Name())
		}
		return errors.Join(Send(t.Context(), c, []int32{1}, peer, 7), m.Wait(t.Context()), other.Close())
	})
}

// TestPlansOfClosedPart: a communicator has the plans of a closed one of the same ranks and settings, which no other
// has at the same time, and links of its own.
func TestPlansOfClosedPart(t *testing.T) {
	for r, err := range runHosts(t, []int{0, 0, 0}, nil, func(_ *testutil.Hosted, c *Comm) error {
		var plans []*setup.Plans
		made := func(d *Comm, err error) *Comm {
			for range 2 {
				x := 0
				if err == nil {
					x, err = AllReduceValue(t.Context(), d, 1, Sum)
				}
				if err == nil && x != d.Size() {
					err = fmt.Errorf("%d of %d ranks", x, d.Size())
				}
			}
			if err != nil {
				t.Errorf("rank %d: %v", c.Rank(), err)
				return c
			}
			plans = append(plans, d.inner().Plans)
			return d
		}
		first, second := made(c.Dup(t.Context())), made(c.Dup(t.Context()))
		_ = first.Close()
		pair := made(c.Split(t.Context(), c.Rank()/2, 0))
		_ = pair.Close()
		other := made(c.Dup(t.Context(), WithAlgorithm("direct")))
		third, fourth := made(c.Dup(t.Context())), made(c.Dup(t.Context()))
		again := made(c.Split(t.Context(), c.Rank()/2, 0))
		of := make([]int, len(plans))
		for i, p := range plans {
			of[i] = slices.Index(plans, p)
		}
		if want := []int{0, 1, 2, 3, 0, 5, 2}; !slices.Equal(of, want) {
			t.Errorf("rank %d: plans %v, want %v", c.Rank(), of, want)
		}
		var kept []*Comm
		for range 9 {
			kept = append(kept, made(c.Dup(t.Context())))
		}
		err := errors.Join(second.Close(), other.Close(), third.Close(), fourth.Close(), again.Close())
		for _, d := range kept {
			err = errors.Join(err, d.Close())
		}
		return err
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Members that make a communicator wait for each other: a call of another goroutine in between does not make one of
// them give up.
func TestSubBesideOtherCalls(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		if c.Rank() == 0 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _, err := TryProbe(c, AnySource, AnyTag)
						if err != nil && !errors.Is(err, ErrBusy) {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		for range 50 {
			d, err := c.Sub(t.Context(), []int{0, 1, 2})
			for errors.Is(err, ErrBusy) { // nothing was done
				d, err = c.Sub(t.Context(), []int{0, 1, 2})
			}
			if err == nil {
				err = d.Close()
			}
			if err != nil {
				close(stop)
				return err
			}
		}
		close(stop)
		wg.Wait()
		return Barrier(t.Context(), c) // before it no rank leaves, as a TryProbe would miss it
	})
}

// If ranks pass different lists of ranks, or one list in different orders, all of them get an error that reports this.
func TestSubOfDifferentRanks(t *testing.T) {
	for _, lists := range [][][]int{{{0, 1}, {1, 0}}, {{0, 1}, {0, 1, 2}, {0, 1, 2}}} {
		errs := runRanks(t, len(lists), func(_ *fakeWorld, c *Comm) error {
			_, err := c.Sub(t.Context(), lists[c.Rank()])
			return err
		})
		if text := fmt.Sprint(errs[0]); !errors.Is(errs[0], ErrDisagree) ||
			!strings.Contains(text, "Sub on rank 0: the ranks do not agree on the ranks of the communicator (Sub): ") {
			t.Errorf("%v: %v", lists, errs)
		}
	}
}

// TestExplainAnytime: other goroutines may describe the plans of a communicator that makes calls, and of a closed one,
// whose plans the next one has. Choice fails then.
func TestExplainAnytime(t *testing.T) {
	mustRun(t, 3, func(w *fakeWorld, c *Comm) error {
		var closed *Comm
		for range 4 {
			d, err := c.Dup(t.Context())
			if err != nil {
				return err
			}
			var readers sync.WaitGroup
			for _, of := range []*Comm{d, closed} {
				if of != nil && w.Rank() > 0 { // ranks differ in what they look for
					readers.Go(func() { _, _ = of.Explain(), of.Algorithms(plan.Broadcast) })
				}
			}
			for n := 1; n < 1<<14 && err == nil; n *= 2 {
				x := make([]int32, n)
				err = AllReduce(t.Context(), d, x, x, Sum)
			}
			readers.Wait()
			if err = errors.Join(err, d.Close()); err != nil {
				return err
			}
			if _, err := d.Choice(plan.AllReduce, -1, 8); !errors.Is(err, ErrClosed) {
				return fmt.Errorf("Choice after Close: %v", err)
			}
			closed = d
		}
		return nil
	})
}

// TestSplitByHost: each rank gets a communicator of the ranks of its host, in their order, of a part, too.
func TestSplitByHost(t *testing.T) {
	hosts := []int{0, 1, 0, 1, 1}
	for r, err := range runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
		for range 2 {
			host, err := c.SplitByHost(t.Context())
			if err != nil {
				return err
			}
			got := make([]int, host.Size())
			if err := AllGather(t.Context(), host, []int{c.Rank()}, got); err != nil {
				return err
			}
			if want := [][]int{{0, 2}, {1, 3, 4}}[hosts[c.Rank()]]; !slices.Equal(got, want) {
				return fmt.Errorf("the ranks of host %d are %v, want %v", hosts[c.Rank()], got, want)
			}
			if err := host.Close(); err != nil {
				return err
			}
			dup, err := c.Dup(t.Context())
			if err != nil {
				return err
			}
			defer dup.Close()
			c = dup
		}
		return nil
	}, WithGraph(testutil.GraphOn(hosts))) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
