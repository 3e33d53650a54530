package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// sumOn makes an AllReduce of the ranks' numbers, and returns an error if the sum is wrong.
func sumOn(ctx context.Context, c *Comm) error {
	x := []int64{int64(c.Rank())}
	if err := AllReduce(ctx, c, x, x, Sum); err != nil || int(x[0]) != c.Size()*(c.Size()-1)/2 {
		return fmt.Errorf("the sum on %s is %v: %w", c.Name(), x, err)
	}
	return nil
}

// TestStartDup: several are in flight, each rank waits for them in another order, and calls and messages on the parent
// come before, between and after. None matches another.
func TestStartDup(t *testing.T) {
	onEveryHost(t, func(c *Comm) error {
		ctx, to, from := t.Context(), (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		early, err := StartRecv(c, make([]int32, 5), from, 7)
		if err != nil {
			return err
		}
		var started []*StartedDup
		for i := range 3 {
			if i == c.Rank() {
				err = errors.Join(sumOn(ctx, c), Send(ctx, c, numbered(5, c.Rank(), 0), to, 7))
			}
			d, err1 := c.StartDup(WithName(fmt.Sprint("copy", i)))
			if err = errors.Join(err, err1); err != nil {
				return err
			}
			started = append(started, d)
		}
		if c.Rank() >= 3 {
			err = errors.Join(sumOn(ctx, c), Send(ctx, c, numbered(5, c.Rank(), 0), to, 7))
		}
		all := make([]*Comm, 3)
		for i := range all {
			at := (i + c.Rank()) % len(all)
			sub, err1 := started[at].Wait(ctx)
			if err = errors.Join(err, err1); err != nil {
				return err
			}
			all[at] = sub
		}
		for i, sub := range all {
			if sub.Name() != fmt.Sprint("copy", i) || sub.Rank() != c.Rank() || sub.Size() != c.Size() {
				return fmt.Errorf("rank %d of %d of %s", sub.Rank(), sub.Size(), sub.Name())
			}
			got := make([]uint8, 3)
			m, err := SendRecv(ctx, sub, []uint8{uint8(i)}, to, got, from, 7)
			if err = errors.Join(err, sumOn(ctx, sub)); err != nil || m != 1 || got[0] != uint8(i) {
				return fmt.Errorf("copy %d: got %v: %w", i, got[:m], err)
			}
		}
		err = errors.Join(early.Wait(ctx), sumOn(ctx, c))
		for _, sub := range all {
			err = errors.Join(err, sub.Close())
		}
		return err
	})
}

// TestStartDupMovesInCalls: a rank that waits in a call makes progress on its StartDup, for which another rank waits
// before it makes that call. A rank that makes no call at all makes progress on it, too.
func TestStartDupMovesInCalls(t *testing.T) {
	onEveryHost(t, func(c *Comm) error {
		for lazy := range c.Size() {
			d, err := c.StartDup()
			if err != nil {
				return err
			}
			if c.Rank() == lazy {
				time.Sleep(20 * time.Millisecond)
			} else if c.Rank()%2 == 0 {
				err = Barrier(t.Context(), c)
			}
			sub, err1 := d.Wait(t.Context())
			if err = errors.Join(err, err1); err != nil {
				return err
			}
			if c.Rank() == lazy || c.Rank()%2 == 1 {
				err = Barrier(t.Context(), c)
			}
			if err = errors.Join(err, sumOn(t.Context(), sub), sub.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestStartDupTest: Test alone completes it, though the others come late, and returns its communicator more than once.
func TestStartDupTest(t *testing.T) {
	onEveryHost(t, func(c *Comm) error {
		time.Sleep(time.Duration(c.Rank()) * 5 * time.Millisecond)
		d, err := c.StartDup()
		if err != nil {
			return err
		}
		var sub *Comm
		for done := false; !done; time.Sleep(100 * time.Microsecond) {
			if sub, done, err = d.Test(); err != nil || done != (sub != nil) {
				return fmt.Errorf("%v, %v: %w", sub, done, err)
			}
		}
		again, done, err := d.Test()
		if err != nil || !done || again.Name() != sub.Name() {
			return fmt.Errorf("once more: %v, %v: %w", again, done, err)
		}
		return errors.Join(sumOn(t.Context(), again), sub.Close())
	})
}

// TestStartDupFails: it ends with the parent, on all ranks, by any cause: a context, Abort, Close before Wait, or a
// rank that makes another call in its place.
func TestStartDupFails(t *testing.T) {
	for what, test := range map[string]struct {
		first func(ctx context.Context, c *Comm) error // of rank 0, in place of its StartDup
		want  string                                   // in the error of rank 1
	}{
		"a context": {func(ctx context.Context, c *Comm) error {
			return Barrier(ctx, c)
		}, "rank 0 waits in Barrier #1 on world for rank 1, rank 1 in StartDup on world for rank 0: a circle"},
		"abort": {func(_ context.Context, c *Comm) error {
			c.Abort(errors.New("enough"))
			return nil
		}, "rank 0 aborted the communicator: enough"},
		"close": {func(_ context.Context, c *Comm) error {
			if _, err := c.StartDup(); err != nil {
				return err
			}
			err := c.Close()
			if err == nil || !strings.Contains(err.Error(), "with calls or messages under way") {
				return fmt.Errorf("Close: %w", err)
			}
			return nil
		}, "rank 0 closed its communicator with calls or messages under way"},
	} {
		t.Run(what, func(t *testing.T) {
			errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if c.Rank() == 0 {
					return test.first(ctx, c)
				}
				d, err := c.StartDup()
				if err != nil {
					return err
				}
				if what == "close" { // rank 0 closes at a moment at which this rank may have the communicator
					time.Sleep(10 * time.Millisecond)
				}
				sub, err := d.Wait(t.Context())
				if sub2, err2 := d.Wait(t.Context()); sub2 != nil || err2 == nil || sub != nil {
					return fmt.Errorf("communicators %v, then %v and %v", sub, sub2, err2)
				}
				return err
			})
			if errs[1] == nil || !strings.Contains(errs[1].Error(), test.want) {
				t.Errorf("rank 1: %v, want %q", errs[1], test.want)
			}
			if what == "close" && errs[0] != nil {
				t.Error(errs[0])
			}
		})
	}
}

// A nil communicator returns an error.
func TestStartDupOfNil(t *testing.T) {
	if d, err := (*Comm)(nil).StartDup(); d != nil || !errors.Is(err, ErrArgument) {
		t.Errorf("%v, %v", d, err)
	}
}
