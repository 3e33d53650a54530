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
	"github.com/treerun/treerun/topo"
)

// stallCase is a case of ranks that wait for each other: the calls of each, the rank at fault in the end, and the text
// of the errors.
type stallCase struct {
	name  string
	ranks int
	fault int // -1: a cycle
	words []string
	call  func(ctx context.Context, a, b *Comm) error
}

func recvFrom(ctx context.Context, c *Comm, from int) error {
	return received(ctx, c, make([]float32, 10), from, 3)
}

// stallCases are chains and cycles. Every rank has two communicators.
func stallCases() []stallCase {
	var all []stallCase
	for n := 2; n <= 4; n++ {
		ring := fmt.Sprintf("rank %d in Recv (10 float32, tag 3) on a for rank 0: a circle", n-1)
		all = append(all, stallCase{fmt.Sprintf("circle of %d", n), n, -1,
			[]string{"rank 0 waits in Recv (10 float32, tag 3) on a for rank 1, ", ring},
			func(ctx context.Context, a, _ *Comm) error { return recvFrom(ctx, a, (a.Rank()+1)%a.Size()) }})
		all = append(all, stallCase{fmt.Sprintf("chain of %d", n), n, n - 1,
			[]string{"is in no call of treerun"},
			func(ctx context.Context, a, _ *Comm) error {
				if a.Rank() == a.Size()-1 {
					return waitForFault(a)
				}
				return recvFrom(ctx, a, a.Rank()+1)
			}})
	}
	for fault := range 3 { // the others wait for each other's parts as well
		all = append(all, stallCase{fmt.Sprintf("large AllReduce without rank %d", fault), 3, fault,
			[]string{"is in no call of treerun"},
			func(ctx context.Context, a, _ *Comm) error {
				if a.Rank() == fault {
					return waitForFault(a)
				}
				x := make([]float32, 1<<20)
				return AllReduce(ctx, a, x, x, Sum)
			}})
	}
	return append(all,
		stallCase{"different order", 2, -1, []string{"on a for rank", "on b for rank",
			"ranks use a and b in different order"},
			func(ctx context.Context, a, b *Comm) error {
				first, second, x := a, b, make([]float32, 10)
				if a.Rank() == 1 {
					first, second = b, a
				}
				if err := AllReduce(ctx, first, x, x, Sum); err != nil {
					return err
				}
				return AllReduce(ctx, second, x, x, Sum)
			}},
		stallCase{"a message against a collective", 3, -1,
			[]string{": a circle", "Barrier #1 on a", "Recv (10 float32, tag 3) on a"},
			func(ctx context.Context, a, _ *Comm) error {
				if a.Rank() == 0 {
					return recvFrom(ctx, a, 1)
				}
				return Barrier(ctx, a)
			}},
		stallCase{"Split", 3, 1, []string{"in Split #1 on a", "is in no call of treerun"},
			func(ctx context.Context, a, _ *Comm) error {
				if a.Rank() == 1 {
					return waitForFault(a)
				}
				_, err := a.Split(ctx, 0, 0)
				return err
			}})
}

// waitForFault returns the failure of c, on which this rank does not call before.
func waitForFault(c *Comm) error {
	for failed := false; !failed; time.Sleep(time.Millisecond) {
		_, failed = c.in.Endpoint.Aborted()
	}
	return Barrier(context.Background(), c)
}

// TestStall: in whatever calls ranks wait for each other, within one host and between hosts, the stall timeout and the
// end of a context name the rank that all ranks wait for in the end, or the cycle, on all ranks.
func TestStall(t *testing.T) {
	for _, tc := range stallCases() {
		for hosts := 1; hosts <= 2; hosts++ {
			for _, kind := range []error{ErrStalled, ErrCanceled} {
				t.Run(fmt.Sprintf("%s/hosts=%d/%v", tc.name, hosts, kind), func(t *testing.T) {
					t.Parallel()
					// New, which all cases make at the same time, has to end within the limit.
					testutil.WithLonger(t, time.Second, func(limit time.Duration) error { return tryStall(t, tc, hosts, kind, limit) })
				})
			}
		}
	}
}

// tryStall makes the ranks wait for each other until limit, and returns the differences from the errors expected.
func tryStall(t *testing.T, tc stallCase, hosts int, kind error, limit time.Duration) error {
	body := func(a, b *Comm) error {
		ctx := t.Context()
		if kind == ErrCanceled {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		return tc.call(ctx, a, b)
	}
	stall := limit
	if kind == ErrCanceled {
		stall = 0
	}
	errs, err := runStalling(t, tc.ranks, hosts, stall, body)
	if err != nil {
		return err
	}
	var wrong []error
	for r, err := range errs {
		var e *RankError
		if !errors.As(err, &e) || e.Rank != tc.fault || !errors.Is(err, kind) {
			wrong = append(wrong, fmt.Errorf("rank %d: %w, want %q of rank %d", r, err, kind, tc.fault))
			continue
		}
		if kind == ErrCanceled && !errors.Is(err, context.DeadlineExceeded) {
			wrong = append(wrong, fmt.Errorf("rank %d: %w is no context.DeadlineExceeded", r, err))
		}
		if kind == ErrStalled && !strings.Contains(err.Error(), "(WithStallTimeout)") {
			wrong = append(wrong, fmt.Errorf("rank %d: %q does not name the limit", r, err))
		}
		if tc.fault >= 0 && !strings.Contains(err.Error(), fmt.Sprintf("rank %d", tc.fault)) {
			wrong = append(wrong, fmt.Errorf("rank %d: %q does not name rank %d", r, err, tc.fault))
		}
		if tc.name == "Split" && e.Hint != "" {
			wrong = append(wrong, fmt.Errorf("rank %d: %q tells of slices that a Split has not", r, err))
		}
		for _, w := range tc.words {
			if !strings.Contains(err.Error(), w) {
				wrong = append(wrong, fmt.Errorf("rank %d: %q does not say %q", r, err, w))
			}
		}
	}
	return errors.Join(wrong...)
}

// runStalling runs body on all ranks with the communicators "a" and "b", and returns what
// it returned. stall is their stall timeout, 0 for none.
func runStalling(t *testing.T, ranks, hosts int, stall time.Duration, body func(a, b *Comm) error) ([]error, error) {
	t.Helper()
	place := make([]int, ranks)
	for r := range place {
		place[r] = r * hosts / ranks
	}
	opts := []Option{WithTopoCache(""), WithGraph(testutil.GraphOn(place)), WithStallReport(0)}
	if stall > 0 {
		opts = append(opts, WithStallTimeout(stall))
	}
	errs := make([]error, ranks)
	var left sync.WaitGroup
	left.Add(ranks)
	for r, err := range testutil.NewJob(place...).Run(t, func(world *testutil.World) error {
		done := sync.OnceFunc(left.Done)
		defer done() // New may fail on some ranks only
		w := testutil.Hosted{World: world}
		a, err := New(t.Context(), w, append(slices.Clone(opts), WithName("a"))...)
		if err != nil {
			return err
		}
		b, err := New(t.Context(), w, append(slices.Clone(opts), WithName("b"))...)
		if err != nil {
			return err
		}
		errs[w.Rank()] = body(a, b)
		done()
		left.Wait()   // a rank that closes would be at fault on the other communicator
		_ = b.Close() // they have failed
		_ = a.Close()
		return nil
	}) {
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return errs, nil
}

// TestStallInNew: a rank does not call New. The others name it, when their deadline passes and when the stall timeout
// ends New.
func TestStallInNew(t *testing.T) {
	for _, kind := range []error{ErrStalled, context.DeadlineExceeded} {
		errs := newFakeJob(3).run(t, func(w *fakeWorld) error {
			if w.Rank() == 1 {
				return nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			opts := []Option{overMem, WithTopoCache(""), WithStallTimeout(100 * time.Millisecond)}
			if kind != ErrStalled {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
				opts = opts[:2]
			}
			defer cancel()
			_, err := New(ctx, w, opts...)
			return err
		})
		named := 0
		for _, r := range []int{0, 2} { // the first to give up ends the all-gather of all
			var e *RankError
			if errors.As(errs[r], &e) && e.Rank == 1 && errors.Is(errs[r], kind) &&
				strings.Contains(errs[r].Error(), "rank 1 is in no call of treerun") {
				named++
			}
		}
		if named == 0 {
			t.Errorf("%v, want %v of rank 1 on a rank", errs, kind)
		}
	}
}

// TestSlowIsNoStall: a call that makes progress, however slowly, is not ended, and its result is correct.
func TestSlowIsNoStall(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		for i := range 5 {
			time.Sleep(time.Duration(c.Rank()) * 40 * time.Millisecond)
			x := []int32{int32(i), int32(c.Rank())}
			if err := AllReduce(t.Context(), c, x, x, Sum); err != nil {
				return err
			}
			if x[0] != int32(3*i) || x[1] != 3 {
				return fmt.Errorf("call %d gave %v", i, x)
			}
		}
		return nil
	}, WithGraph(topo.UniformGraph(3)), WithStallTimeout(5*time.Second))
}

// TestNames: communicators have names, the same on all ranks, and a different name is detected.
func TestNames(t *testing.T) {
	errs := newFakeJob(2).run(t, func(w *fakeWorld) error {
		var all []string
		for range 2 {
			c, err := New(t.Context(), w, overMem, WithTopoCache(""))
			if err != nil {
				return err
			}
			defer c.Close()
			for range 2 {
				part, err := c.Split(t.Context(), 0, 0)
				if err != nil {
					return err
				}
				defer part.Close()
				all = append(all, part.Name())
			}
			all = append(all, c.Name())
		}
		want := []string{"world/split#1", "world/split#2", "world", "world#2/split#1", "world#2/split#2", "world#2"}
		if !slices.Equal(all, want) {
			return fmt.Errorf("names %q, want %q", all, want)
		}
		_, err := New(t.Context(), w, overMem, WithTopoCache(""), WithName([]string{"left", "right"}[w.Rank()]))
		if !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), `"left" on rank 0`) {
			return fmt.Errorf("different names gave %v", err)
		}
		return nil
	})
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
