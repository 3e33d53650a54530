package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRoundsMismatch: if ranks start such calls in another order, or other calls, all ranks get an error that names
// both calls.
func TestRoundsMismatch(t *testing.T) {
	keep := func(into, from []int32) {}
	x, two := func() []int32 { return make([]int32, 6) }, []int{2, 2, 2}
	calls := map[string]func(c *Comm) (Request, error){
		"Scan":              func(c *Comm) (Request, error) { return StartScan(c, x(), x(), Sum) },
		"AllReduceFunc":     func(c *Comm) (Request, error) { return StartAllReduceFunc(c, x(), x(), keep) },
		"ReduceScatterFunc": func(c *Comm) (Request, error) { return StartReduceScatterFunc(c, x(), x()[:2], keep) },
		"AllToAllV":         func(c *Comm) (Request, error) { return StartAllToAllV(c, x(), two, x(), two) },
		"AllReduce":         func(c *Comm) (Request, error) { return StartAllReduce(c, x(), x(), Sum) },
	}
	for a := range calls {
		for b := range calls {
			if a == b {
				continue
			}
			for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
				first, second := calls[a], calls[b]
				if c.Rank() == 1 {
					first, second = second, first
				}
				if _, err := first(c); err != nil {
					return err
				}
				last, err := second(c)
				if err != nil {
					return err
				}
				return last.Wait(t.Context())
			}) {
				if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), a+" #") ||
					!strings.Contains(err.Error(), b+" #") {
					t.Errorf("%s and %s, rank %d: %v, want ErrMismatch with both", a, b, r, err)
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		text string
		odd  func(c *Comm) (Request, error)
	}{
		"count": {"ScanFunc #1 (5 int32", func(c *Comm) (Request, error) {
			return StartScanFunc(c, x()[1:], x()[1:], keep)
		}},
		"parts": {"ScanFunc #1 (6 int16", func(c *Comm) (Request, error) {
			y := make([]int16, 6)
			return StartScanFunc(c, y, y, func(into, from []int16) {})
		}},
	} {
		for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
			begin := tc.odd
			if c.Rank() != 1 {
				begin = func(c *Comm) (Request, error) { return StartScanFunc(c, x(), x(), keep) }
			}
			for range 3 {
				if _, err := begin(c); err != nil {
					return err
				}
			}
			r, err := begin(c)
			if err != nil {
				return err
			}
			return r.Wait(t.Context())
		}) {
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s, rank %d: %v, want ErrMismatch with %q", name, r, err, tc.text)
			}
		}
	}
}

// TestRoundsArguments: Start and Init refuse invalid arguments before anything is sent.
func TestRoundsArguments(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		x, keep := make([]int32, 6), func(into, from []int32) {}
		started := func(_ Request, err error) error { return err }
		prepared := func(_ *Persistent, err error) error { return err }
		for name, err := range map[string]error{
			"lengths":           started(StartAllReduceFunc(c, x, x[1:], keep)),
			"lengths, Init":     prepared(AllReduceFuncInit(c, x, x[1:], keep)),
			"nil":               started(StartScanFunc(c, x, x, nil)),
			"nil, Init":         prepared(ExScanFuncInit(c, x, x, nil)),
			"root":              started(StartReduceFunc(c, x, x, keep, 2)),
			"no root, Init":     prepared(ReduceFuncInit(c, x, x, keep, -1)),
			"average":           started(StartScan(c, x, x, Avg)),
			"operation, Init":   prepared(ExScanInit(c, x, x, 0)),
			"overlap":           started(StartExScan(c, x[1:], x[:5], Sum)),
			"parts":             started(StartReduceScatterFunc(c, x, x[:2], keep)),
			"other part, Init":  prepared(ReduceScatterFuncInit(c, x, x[1:4], keep)),
			"counts":            started(StartAllToAllV(c, x, []int{3, 2}, make([]int32, 6), []int{3, 3})),
			"few counts, Init":  prepared(AllToAllVInit(c, x, []int{6}, make([]int32, 6), []int{3, 3})),
			"sends to itself":   started(StartAllToAllV(c, x, []int{3, 3}, x, []int{3, 3})),
			"pointers":          started(StartExScanFunc(c, []string{""}, []string{""}, func(into, from []string) {})),
			"pointers, of Init": prepared(ScanFuncInit(c, []*int{nil}, []*int{nil}, func(into, from []*int) {})),
		} {
			if !errors.Is(err, ErrArgument) {
				return fmt.Errorf("%s: %w, want ErrArgument", name, err)
			}
		}
		return Scan(t.Context(), c, x, x, Sum)
	})
}

// TestRoundsAndClose: Close with such a call in flight is the usual error on all ranks.
func TestRoundsAndClose(t *testing.T) {
	left := make(chan struct{})
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		const part = 1 << 18
		x, y, counts := make([]int, 3*part), make([]int, 3*part), []int{part, part, part}
		if c.Rank() != 1 {
			<-left
		}
		r, err := StartAllToAllV(c, x, counts, y, counts)
		if c.Rank() == 1 {
			close(left)
			return err
		}
		return cmp.Or(err, r.Wait(t.Context()))
	}) {
		want := "rank 1 closed its communicator with StartAllToAllV #1 (int64) under way"
		if !errors.Is(err, ErrPeerClosed) || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v, want ErrPeerClosed of rank 1", r, err)
		}
	}
}

// TestRoundsGivenUp: a context that ends while a rank waits for messages of such a call ends it on all ranks. The error
// names the rank that has not continued.
func TestRoundsGivenUp(t *testing.T) {
	failed := make(chan struct{})
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 2 {
			<-failed
		}
		ones := []int{1, 1, 1}
		begun, err := StartAllToAllV(c, ones, ones, make([]int, 3), ones)
		if err != nil || c.Rank() == 2 {
			return cmp.Or(err, begun.Wait(t.Context()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err = begun.Wait(ctx)
		if c.Rank() == 0 {
			close(failed)
		}
		return err
	}) {
		var re *RankError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &re) || re.Rank != 2 ||
			!strings.Contains(err.Error(), "AllToAllV") {
			t.Errorf("rank %d: %v, want a deadline that names rank 2", r, err)
		}
	}
}

// TestRoundsOnManyComms has goroutines of a rank combine at once, each on a communicator of its own: f may then run in
// another one.
func TestRoundsOnManyComms(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		var all sync.WaitGroup
		errs := make([]error, 4)
		for g := range errs {
			own, err := c.Dup(t.Context())
			if err != nil {
				return err
			}
			all.Go(func() { errs[g] = errors.Join(combineOften(t, own), own.Close()) })
		}
		all.Wait()
		return errors.Join(errs...)
	})
}

func combineOften(t *testing.T, c *Comm) error {
	add := func(into, from []int) {
		for i := range into {
			into[i] += from[i]
		}
	}
	for n := range 100 {
		x, y := slices.Repeat([]int{c.Rank()}, n+1), slices.Repeat([]int{1}, n+1)
		begun, err := StartScan(c, y, y, Sum)
		if err != nil {
			return err
		}
		if err := errors.Join(AllReduceFunc(t.Context(), c, x, x, add), begun.Wait(t.Context())); err != nil {
			return err
		}
		if x[n] != c.Size()*(c.Size()-1)/2 || y[n] != c.Rank()+1 {
			return fmt.Errorf("round %d: sum %d, scan %d", n, x[n], y[n])
		}
	}
	return nil
}
