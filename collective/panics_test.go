package collective

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// panicking are calls with a function that panics, by their names.
var panicking = map[string]func(ctx context.Context, c *Comm, f func(into, from []int)) error{
	"AllReduceFunc": func(ctx context.Context, c *Comm, f func(into, from []int)) error {
		return AllReduceFunc(ctx, c, []int{1}, []int{0}, f)
	},
	"AllReduceFunc of large elements": func(ctx context.Context, c *Comm, f func(into, from []int)) error {
		type large [1 << 17]int
		return AllReduceFunc(ctx, c, make([]large, 1), make([]large, 1), func(_, _ []large) { f(nil, nil) })
	},
	"AllReduceFunc in parts": func(ctx context.Context, c *Comm, f func(into, from []int)) error {
		return AllReduceFunc(ctx, c, make([]int, 300000), make([]int, 300000), f)
	},
	"AllReduceValueFunc": func(ctx context.Context, c *Comm, f func(into, from []int)) error {
		_, err := AllReduceValueFunc(ctx, c, 1, func(a, _ int) int { f(nil, nil); return a })
		return err
	},
	"ReduceScatterFunc": func(ctx context.Context, c *Comm, f func(into, from []int)) error {
		return ReduceScatterFunc(ctx, c, make([]int, c.Size()), []int{0}, f)
	},
	"ScanFunc": func(ctx context.Context, c *Comm, f func(into, from []int)) error {
		return ScanFunc(ctx, c, []int{1}, []int{0}, f)
	},
	"StartAllReduceFunc": func(ctx context.Context, c *Comm, f func(into, from []int)) error {
		r, err := StartAllReduceFunc(c, []int{1}, []int{0}, f)
		if err == nil {
			err = r.Wait(ctx)
		}
		return err
	},
}

// TestPanicOfFunction: where a function of the caller panics, the call is an error on all ranks that has the words of
// the panic and its place, and other communicators of the ranks continue.
func TestPanicOfFunction(t *testing.T) {
	for name, call := range panicking {
		for size := 2; size <= 3; size++ {
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				for round := range 4 {
					d, err := c.Dup(t.Context())
					if err != nil {
						return err
					}
					err = call(t.Context(), d, func(_, _ []int) { panic("no\nsum") })
					if name == "ScanFunc" && err == nil { // rank 0 need not wait for the others
						err = Barrier(t.Context(), d)
					}
					if !errors.Is(err, ErrAborted) || !strings.Contains(err.Error(), "panicked at panics_test.go:") ||
						!strings.Contains(err.Error(), ": no; sum") {
						return fmt.Errorf("%s, round %d: %w", name, round, err)
					}
					if err := d.Close(); err != nil {
						return err
					}
					if err := sumOn(t.Context(), c); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}

// TestPanicOfOtherGoroutine: goroutines of a rank poll for each other, and a function that panics ends the call on its
// own communicator only.
func TestPanicOfOtherGoroutine(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		sums := make(chan error, 1)
		go func() {
			for range 200 {
				if err := sumOn(t.Context(), c); err != nil {
					sums <- err
					return
				}
			}
			sums <- nil
		}()
		for i := range 50 {
			err = AllReduceFunc(t.Context(), d, []int{i}, []int{0}, func(_, _ []int) {
				if i == 49 {
					panic("the last")
				}
			})
			if i < 49 && err != nil || i == 49 && !errors.Is(err, ErrAborted) {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		return <-sums
	})
}

// TestFunctionEndsItsGoroutine: the other ranks get an error.
func TestFunctionEndsItsGoroutine(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() {
			defer func() { ended <- nil }()
			err := ReduceFunc(t.Context(), d, []int{1}, []int{0}, func(_, _ []int) { runtime.Goexit() }, 0)
			if err == nil {
				err = Barrier(t.Context(), d)
			}
			ended <- err
		}()
		if err := <-ended; c.Rank() == 1 && (!errors.Is(err, ErrAborted) ||
			!strings.Contains(err.Error(), "the program's function ended its goroutine")) {
			return fmt.Errorf("rank 1: %w", err)
		}
		return nil
	})
}

// TestPanicOfObserver: the call after which an observer panics, or ends its goroutine, is done on this rank, and the
// next one is an error on all ranks that has the words of the panic. The communicator can be closed.
func TestPanicOfObserver(t *testing.T) {
	for end, want := range map[string]string{"panic": "the observer panicked at panics_test.go:",
		"exit": "the observer ended"} {
		mustRun(t, 2, func(w *fakeWorld, c *Comm) error {
			d, err := New(t.Context(), w, WithObserver(func(e Event) {
				switch {
				case w.Rank() != 1 || e.Err != nil:
				case end == "panic":
					panic("no metrics")
				default:
					runtime.Goexit()
				}
			}))
			if err != nil {
				return err
			}
			ended := make(chan error, 1)
			go func() {
				defer close(ended)
				ended <- Barrier(t.Context(), d)
			}()
			err = <-ended // on rank 1 it has ended before
			if err != nil && (w.Rank() == 1 || !errors.Is(err, ErrAborted)) {
				return fmt.Errorf("%s: the call has failed: %w", end, err)
			}
			if err = Barrier(t.Context(), d); !errors.Is(err, ErrAborted) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%s: %w", end, err)
			}
			if err := d.Close(); err != nil {
				return err
			}
			return sumOn(t.Context(), c)
		})
	}
}
