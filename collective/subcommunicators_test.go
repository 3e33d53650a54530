package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// makers are the ways to make a communicator from another one.
var makers = map[string]func(ctx context.Context, c *Comm) (*Comm, error){
	"Split": func(ctx context.Context, c *Comm) (*Comm, error) { return c.Split(ctx, c.Rank()%2, -c.Rank()) },
	"Dup":   func(ctx context.Context, c *Comm) (*Comm, error) { return c.Dup(ctx) },
	"Sub": func(ctx context.Context, c *Comm) (*Comm, error) {
		if c.Rank() == c.Size()-1 {
			return nil, nil // takes no part
		}
		var all []int
		for r := c.Size() - 2; r >= 0; r-- {
			all = append(all, r)
		}
		return c.Sub(ctx, all)
	},
}

// A communicator's calls and messages may be in flight while others are made from it; each has its own result.
func TestGroupWithCallsUnderWay(t *testing.T) {
	for name, make := range makers {
		for _, hosts := range [][]int{testutil.OneHost(8), {0, 0, 1, 1, 0}} {
			t.Run(fmt.Sprintf("%s/%v", name, hosts), func(t *testing.T) {
				errs := runHosts(t, hosts, map[string]string{"start-timeout": "30s"},
					func(_ *testutil.Hosted, c *Comm) error { return callsUnderWay(t.Context(), c, make) },
					WithGraph(testutil.GraphOn(hosts)))
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// callsUnderWay begins calls, makes a communicator, which calls in turn with those of c, and waits.
func callsUnderWay(ctx context.Context, c *Comm, maker func(context.Context, *Comm) (*Comm, error)) error {
	for round := range 3 {
		var requests []Request
		var sums [][]int32
		right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		in := make([]int32, 50000)
		recv, err := StartRecv(c, in, left, round)
		for i := 0; i < 12 && err == nil; i++ {
			x := make([]int32, 1+i*i*1000) // the last ones are longer than what links hold
			for j := range x {
				x[j] = int32(i + c.Rank())
			}
			var r Request
			r, err = StartAllReduce(c, x, x, Sum)
			requests, sums = append(requests, r), append(sums, x)
		}
		if err != nil {
			return err
		}
		if c.Rank() == round { // a rank that is late
			time.Sleep(20 * time.Millisecond)
		}
		part, err := maker(ctx, c)
		if err != nil {
			return err
		}
		out := slices.Repeat([]int32{int32(c.Rank())}, len(in))
		sent, err := StartSend(c, out, right, round)
		if err != nil {
			return err
		}
		if part != nil {
			n := []int{1}
			if err := AllReduce(ctx, part, n, n, Sum); err != nil || n[0] != part.Size() {
				return fmt.Errorf("%s counts %d ranks of %d: %w", part.Name(), n[0], part.Size(), err)
			}
		}
		for i, r := range slices.Backward(requests) {
			want := int32(c.Size()*i + c.Size()*(c.Size()-1)/2)
			if err := r.Wait(ctx); err != nil || slices.Min(sums[i]) != want || slices.Max(sums[i]) != want {
				return fmt.Errorf("AllReduce %d is not %d: %w", i, want, err)
			}
		}
		if err := errors.Join(sent.Wait(ctx), recv.Wait(ctx)); err != nil || slices.Max(in) != int32(left) {
			return fmt.Errorf("rank %d has sent %d: %w", left, slices.Max(in), err)
		}
		if part != nil {
			if err := part.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ranks make a communicator, and call on it, while a call of all ranks waits for a rank that is not a member.
func TestSubWithoutTheOthers(t *testing.T) {
	for _, hosts := range [][]int{testutil.OneHost(4), {0, 0, 1, 1}} {
		var made sync.WaitGroup
		made.Add(len(hosts) - 1)
		errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
			x := make([]int64, 300000) // more than links hold
			if c.Rank() == c.Size()-1 {
				made.Wait()
				return AllReduce(t.Context(), c, x, x, Sum)
			}
			r, err := StartAllReduce(c, x, x, Sum)
			if err != nil {
				return err
			}
			part, err := makers["Sub"](t.Context(), c)
			if err == nil {
				err = Barrier(t.Context(), part)
			}
			made.Done()
			return errors.Join(err, r.Wait(t.Context()), part.Close())
		}, WithGraph(testutil.GraphOn(hosts)))
		if err := errors.Join(errs...); err != nil {
			t.Errorf("hosts %v: %v", hosts, err)
		}
	}
}

// Any number of ranks, of any hosts, can make a communicator.
func TestGroupOfOtherHosts(t *testing.T) {
	hosts := []int{0}
	for r := range 17 { // with this many, links connect when first needed
		hosts = append(hosts, 1+r%2)
	}
	errs := runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
		if w.Rank() == 0 {
			return Barrier(t.Context(), c)
		}
		var ranks []int
		for r := range 17 {
			ranks = append(ranks, 17-r)
		}
		part, err := c.Sub(t.Context(), ranks)
		if err != nil {
			return err
		}
		return errors.Join(checkSum(t, part, 1000), part.Close(), Barrier(t.Context(), c))
	}, WithGraph(testutil.GraphOn(hosts)))
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// Communicators that have been made from others and closed leave nothing behind: no goroutine, descriptor, mapping or
// file.
func TestGroupsLeaveNothing(t *testing.T) {
	for rounds, hosts := range map[int][]int{200: testutil.OneHost(3), 60: {0, 1, 0}} {
		var before [4]int
		errs := runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
			count := func(f func() error) error { // while no communicator is made or closed
				err := Barrier(t.Context(), c)
				if err == nil && w.Rank() == 0 {
					err = f()
				}
				return errors.Join(err, Barrier(t.Context(), c))
			}
			if err := makeAndClose(t.Context(), c, 12); err != nil { // links of c open, too
				return err
			}
			if err := count(func() error { before = held(t); return nil }); err != nil {
				return err
			}
			if err := makeAndClose(t.Context(), c, testutil.Count(rounds, 1000)); err != nil {
				return err
			}
			return count(func() error { leavesNothing(t, before); return nil })
		}, WithGraph(testutil.GraphOn(hosts)))
		if err := errors.Join(errs...); err != nil {
			t.Errorf("hosts %v: %v", hosts, err)
		}
	}
}

// makeAndClose makes n communicators of c, calls on half of them, and closes each.
func makeAndClose(ctx context.Context, c *Comm, n int) error {
	for i := range n {
		part, err := makers[[]string{"Split", "Sub", "Dup"}[i%3]](ctx, c)
		if err == nil && part != nil && i%2 == 0 {
			err = Barrier(ctx, part)
		}
		if err == nil && part != nil {
			err = part.Close()
		}
		if err != nil {
			return fmt.Errorf("communicator %d: %w", i, err)
		}
	}
	return nil
}

// A failure of a communicator ends it alone, and the error names it and one of its ranks: its parent and the other
// communicators of that parent do not notice.
func TestGroupFailsAlone(t *testing.T) {
	for _, hosts := range [][]int{testutil.OneHost(6), {0, 0, 1, 1, 0, 1}} {
		errs := runHosts(t, hosts, nil, func(w *testutil.Hosted, c *Comm) error {
			part, err := c.Split(t.Context(), c.Rank()%2, 0)
			if err != nil {
				return err
			}
			copied, err := part.Dup(t.Context(), WithName("copy"))
			if err != nil {
				return err
			}
			if err := Barrier(t.Context(), c); err != nil { // no rank is in Dup any more
				return err
			}
			if c.Rank() == 3 { // number 1 of its group
				part.Abort(errors.New("of the odd ones"))
			}
			name := fmt.Sprintf(" on %s: rank 1 aborted the communicator: of the odd ones", part.Name())
			for range 2 { // the call that detects it, and the next one
				x := []int{1}
				err := AllReduce(t.Context(), part, x, x, Sum)
				e := (*RankError)(nil)
				switch odd := c.Rank()%2 == 1; {
				case !odd && (err != nil || x[0] != 3):
					return fmt.Errorf("beside the group that failed: %d, %w", x[0], err)
				case odd && (!errors.Is(err, ErrAborted) || !errors.As(err, &e) || e.Rank != 1 || e.Comm != part.Name() ||
					!strings.Contains(err.Error(), name)):
					return fmt.Errorf("in the group that failed: %w", err)
				}
			}
			if err := errors.Join(checkSum(t, copied, 100), checkSum(t, c, 100)); err != nil {
				return err
			}
			again, err := c.Split(t.Context(), c.Rank()%2, 0)
			if err != nil {
				return err
			}
			if err := part.Close(); err != nil {
				return fmt.Errorf("closing what has failed: %w", err)
			}
			return errors.Join(Barrier(t.Context(), again), again.Close(), copied.Close(), Barrier(t.Context(), c))
		}, WithGraph(testutil.GraphOn(hosts)))
		if err := errors.Join(errs...); err != nil {
			t.Errorf("hosts %v: %v", hosts, err)
		}
	}
}

// A rank that is lost ends the job's communicators, and each one reports by its own numbers whether it is one of its
// ranks.
func TestGroupOfLostRank(t *testing.T) {
	var ready sync.WaitGroup
	ready.Add(4)
	runRanks(t, 4, func(w *fakeWorld, c *Comm) error {
		part, err := c.Split(t.Context(), c.Rank()/2, -c.Rank()) // rank 3 is number 0 of its group
		ready.Done()
		ready.Wait()
		if c.Rank() == 3 {
			w.Fail(3, errors.New("it was killed"))
			return nil
		}
		for err == nil {
			err = Barrier(t.Context(), part)
		}
		want := []int{-1, -1, 0}[c.Rank()]
		if e := (*RankError)(nil); !errors.As(err, &e) || e.Rank != want || !errors.Is(err, ErrRankLost) ||
			!strings.Contains(err.Error(), " on "+part.Name()+": ") ||
			!strings.HasSuffix(err.Error(), "rank 3 of world: it was killed") {
			t.Errorf("rank %d: %v, want rank %d", c.Rank(), err, want)
		}
		return part.Close()
	})
}

// A communicator fails while others are made of it. Some ranks may already have the new one: they learn of the failure
// from those that do not.
func TestDupOfWhatFails(t *testing.T) {
	for round := range testutil.Count(40, 400) {
		runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
			part, err := c.Dup(t.Context())
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				go func() {
					time.Sleep(time.Duration(round) * 40 * time.Microsecond)
					part.Abort(nil)
				}()
			}
			for err == nil {
				var copied *Comm
				if copied, err = part.Dup(t.Context()); err == nil {
					_ = Barrier(t.Context(), copied) // ends, whether or not all have one
					_ = copied.Close()
				}
			}
			if !errors.Is(err, ErrAborted) {
				t.Errorf("rank %d: %v, want ErrAborted", c.Rank(), err)
			}
			return part.Close()
		})
	}
}
