package collective

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

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
			st, err := SendRecv(ctx, sub, []uint8{uint8(i)}, to, got, from, 7)
			if err = errors.Join(err, sumOn(ctx, sub)); err != nil || st.Count != 1 || got[0] != uint8(i) {
				return fmt.Errorf("copy %d: got %v: %w", i, got[:1], err)
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

// TestStartDupTest: Test alone ends several, though the other ranks start them late, and reports each of them more than
// once.
func TestStartDupTest(t *testing.T) {
	onEveryHost(t, func(c *Comm) error {
		var started [3]*StartedDup
		var subs [3]*Comm
		for i := range started {
			time.Sleep(time.Duration(c.Rank()) * 3 * time.Millisecond)
			var err error
			if started[i], err = c.StartDup(); err != nil {
				return err
			}
		}
		for left := len(subs); left > 0; time.Sleep(100 * time.Microsecond) {
			for i, d := range started {
				sub, done, err := d.Test()
				if err != nil || done != (sub != nil) || !done && subs[i] != nil {
					return fmt.Errorf("%v, %v: %w", sub, done, err)
				}
				if done && subs[i] == nil {
					subs[i] = sub
					left--
				}
			}
		}
		var err error
		for i, sub := range subs {
			again, err1 := started[i].Wait(t.Context())
			if err = errors.Join(err, err1); err != nil {
				return err
			}
			err = errors.Join(err, sumOn(t.Context(), again), sub.Close())
		}
		return err
	})
}

// TestStartDupAfterFailure: Wait and Test of one whose parent fails before or after StartDup return the failure, also
// when the goroutine that makes the communicator has given up long before.
func TestStartDupAfterFailure(t *testing.T) {
	for _, before := range []bool{false, true} {
		for _, test := range []bool{false, true} {
			t.Run(fmt.Sprintf("before %v, test %v", before, test), func(t *testing.T) {
				for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
					if before {
						c.Abort(errors.New("enough"))
					}
					var started [2]*StartedDup
					for i := range started {
						var err error
						if started[i], err = c.StartDup(); err != nil {
							return err
						}
					}
					if c.Rank() == 1 {
						c.Abort(errors.New("enough"))
					}
					time.Sleep(50 * time.Millisecond)
					for _, d := range started {
						sub, done, err := (*Comm)(nil), true, error(nil)
						if test {
							sub, done, err = d.Test()
						} else {
							sub, err = d.Wait(t.Context())
						}
						if sub != nil || !done || !errors.Is(err, ErrAborted) {
							return fmt.Errorf("%v, %v: %w", sub, done, err)
						}
					}
					return nil
				}) {
					if err != nil && !errors.Is(err, ErrAborted) {
						t.Errorf("rank %d: %v", r, err)
					}
				}
			})
		}
	}
}

// TestStartDupStalls: the stall timeout of a Wait ends the parent on all ranks, that of the late rank, too, and Close
// knows nothing more.
func TestStartDupStalls(t *testing.T) {
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 0 {
			time.Sleep(time.Second)
		}
		d, err := c.StartDup()
		if err == nil {
			_, err = d.Wait(t.Context())
		}
		if !errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), "rank 0 is in no call") {
			return fmt.Errorf("not stalled: %w", err)
		}
		return nil
	}, WithStallTimeout(300*time.Millisecond)) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestStartDupGivesUp: the error of a Wait that is canceled names the rank that has not called StartDup.
func TestStartDupGivesUp(t *testing.T) {
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 0 {
			time.Sleep(500 * time.Millisecond)
			return nil
		}
		d, err := c.StartDup()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		_, err = d.Wait(ctx)
		return err
	})
	if err := errs[1]; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(),
		"rank 1 gave up in StartDup on world: context canceled; it waited for rank 0 to send") {
		t.Error(err)
	}
}

// TestStartDupBusy: a Wait during another goroutine's call is ErrBusy, and a later one returns the communicator.
func TestStartDupBusy(t *testing.T) {
	release := make(chan bool, 1)
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		d, err := c.StartDup()
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			barrier := make(chan error)
			go func() { barrier <- Barrier(t.Context(), c) }()
			for !c.in.Claimed() {
				time.Sleep(time.Millisecond)
			}
			if sub, err := d.Wait(t.Context()); sub != nil || !errors.Is(err, ErrBusy) {
				return fmt.Errorf("%v, %w", sub, err)
			}
			if sub, done, err := d.Test(); sub != nil || done || !errors.Is(err, ErrBusy) {
				return fmt.Errorf("%v, %v, %w", sub, done, err)
			}
			release <- true
			err = <-barrier
		} else {
			<-release
			err = Barrier(t.Context(), c)
		}
		sub, err1 := d.Wait(t.Context())
		if err = errors.Join(err, err1); err != nil {
			return err
		}
		return sub.Close()
	})
}

// TestStartDupDropped: Close of the parent closes communicators that no Wait has returned, and reports that.
func TestStartDupDropped(t *testing.T) {
	for r, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		before := runtime.NumGoroutine()
		var started []*StartedDup
		for range 5 {
			d, err := c.StartDup()
			if err != nil {
				return err
			}
			started = append(started, d)
		}
		time.Sleep(100 * time.Millisecond) // most are made meanwhile
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "StartDup under way") {
			return fmt.Errorf("Close: %w", err)
		}
		for _, d := range started {
			if sub, err := d.Wait(t.Context()); sub != nil || err == nil {
				return fmt.Errorf("%v, %w", sub, err)
			}
		}
		for late := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				return fmt.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
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
			if err == nil || !strings.Contains(err.Error(), "with StartDup under way") {
				return fmt.Errorf("Close: %w", err)
			}
			return nil
		}, "rank 0 closed its communicator with StartDup under way"},
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
