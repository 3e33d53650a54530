package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWaitAny: rank 0 waits for any of the messages of all others, which send one after the other in an order that rank
// 0 chooses, and for a Barrier, which the others enter last.
func TestWaitAny(t *testing.T) {
	const size = 5
	for _, count := range []int{1, 50_000} { // by one chunk, and of a length that is not kept
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			buf := make([]int32, count)
			if c.Rank() > 0 {
				buf[count-1] = int32(c.Rank())
				_, err := Recv(t.Context(), c, []int8{0}, 0, 1) // the turn of this rank
				err = errors.Join(err, Send(t.Context(), c, buf, 0, 2), received(t.Context(), c, []int8{0}, 0, 3))
				return errors.Join(err, Barrier(t.Context(), c))
			}
			var all []InFlight
			var got [][]int32
			for r := 1; r < size; r++ {
				got = append(got, make([]int32, count))
				m, err := StartRecv(c, got[r-1], r, 2)
				if err != nil {
					return err
				}
				all = append(all, m)
			}
			barrier, err := StartBarrier(c)
			if err != nil {
				return err
			}
			all = append(all, barrier)
			for _, r := range []int{3, 1, 4, 2} {
				if err := Send(t.Context(), c, []int8{1}, r, 1); err != nil {
					return err
				}
				at := slices.Index(all, InFlight(barrier)) // it moves forward
				i, err := WaitAny(t.Context(), all...)
				if err != nil || i == at || got[r-1][count-1] != int32(r) {
					return fmt.Errorf("after rank %d had its turn: index %d of %d: %w", r, i, len(all), err)
				}
				if all[i] = nil; r == 2 {
					all = slices.DeleteFunc(all, func(r InFlight) bool { return r == nil })
				}
			}
			for r := 1; r < size; r++ {
				if err := Send(t.Context(), c, []int8{1}, r, 3); err != nil {
					return err
				}
			}
			if i, err := WaitAny(t.Context(), all...); i != 0 || err != nil {
				return fmt.Errorf("the Barrier: index %d, %w", i, err)
			}
			if i, err := WaitAny(t.Context(), Message{}, Message{}); i != -1 || err != nil {
				return fmt.Errorf("of none: index %d, %w", i, err)
			}
			return nil
		})
	}
}

// TestWaitSeveralComms: requests of two communicators, on which ranks wait in different orders, move side by side.
func TestWaitSeveralComms(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		order := []*Comm{c, d}
		if c.Rank() == 1 {
			order = []*Comm{d, c}
		}
		for range 20 {
			var all []InFlight
			x := make([]float32, 100_000)
			for _, of := range order {
				r, err := StartAllReduce(of, x[:50_000], x[:50_000], Sum)
				x = x[50_000:]
				if err != nil {
					return err
				}
				in, inErr := StartRecv(of, make([]int64, 30_000), 1-c.Rank(), 5)
				out, outErr := StartSend(of, make([]int64, 30_000), 1-c.Rank(), 5)
				if err := errors.Join(inErr, outErr); err != nil {
					return err
				}
				all = append(all, r, in, out)
			}
			i, err := WaitAny(t.Context(), all...)
			if err == nil {
				_, err = all[i].Test()
			}
			if err := errors.Join(err, WaitAll(t.Context(), all...)); err != nil {
				return err
			}
			for i, r := range all {
				if done, err := r.Test(); !done || err != nil {
					return fmt.Errorf("number %d after WaitAll: %v, %w", i, done, err)
				}
			}
		}
		return d.Close()
	})
}

// TestWaitFails: the errors of WaitAll and WaitAny name the request, and the rank; the text of a wait has the number of
// the others.
func TestWaitFails(t *testing.T) {
	for _, both := range []bool{true, false} {
		for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() > 0 {
				return Barrier(t.Context(), c) // until rank 0 gives up
			}
			var all []Message
			for _, r := range []int{0, 1, 2} {
				m, err := StartRecv(c, []int16{0}, r, 7)
				if err != nil {
					return err
				}
				all = append(all, m)
			}
			s, err := StartSend(c, []int16{5}, 0, 7)
			if err != nil {
				return err
			}
			if i, err := WaitAny(t.Context(), Message{}, all[1], s, all[0]); i != 2 || err != nil {
				return fmt.Errorf("a Send to this rank: %d, %w", i, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err, want := error(nil), []string{"WaitAll, request 1 of 0..2", "Recv (1 int16, tag 7)", "rank 1"}
			if both {
				err = WaitAll(ctx, all...)
			} else {
				_, err = WaitAny(ctx, all[1:]...)
				want = []string{"WaitAny, request 0 of 0..1", "rank 0 waits in WaitAny of StartRecv (1 int16, tag 7)"}
			}
			for _, text := range want {
				if err == nil || !strings.Contains(err.Error(), text) {
					return fmt.Errorf("%w, want %q", err, text)
				}
			}
			if e := (*RankError)(nil); !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("%w, want a RankError of the deadline", err)
			}
			return nil
		}) {
			if (r == 0) != (err == nil) || r > 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("both %v, rank %d: %v", both, r, err)
			}
		}
	}
}

// WaitAll of two communicators returns once one of them has failed, and what waits on the other stays usable.
func TestWaitAllReturnsAtOnce(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		if c.Rank() == 0 {
			if err := received(t.Context(), c, []int{0}, 1, 1); err != nil {
				return err
			}
			d.Abort(errors.New("enough"))
			return errors.Join(received(t.Context(), c, []int{0}, 1, 2), Send(t.Context(), c, []int{5}, 1, 9))
		}
		first, err := StartRecv(c, []int{0}, 0, 9)
		second, err2 := StartRecv(d, []int{0}, 0, 9)
		if err := errors.Join(err, err2, Send(t.Context(), c, []int{1}, 0, 1)); err != nil {
			return err
		}
		for range 2 { // the second time it has failed before
			err = WaitAll(t.Context(), first, second)
			if !errors.Is(err, ErrAborted) || !strings.Contains(err.Error(), "WaitAll, request 1 of 0..1") {
				return fmt.Errorf("WaitAll: %w", err)
			}
		}
		if done, err := first.Test(); done || err != nil {
			return fmt.Errorf("the other communicator: %v, %w", done, err)
		}
		return errors.Join(Send(t.Context(), c, []int{1}, 0, 2), first.Wait(t.Context()))
	})
}

// An ErrBusy is none of the requests.
func TestWaitAnyWhileBusy(t *testing.T) {
	mustRun(t, 1, func(_ *fakeWorld, c *Comm) error {
		m, err := StartRecv(c, []int{0}, 0, 1)
		if err != nil {
			return err
		}
		if err := c.in.Claim("another call"); err != nil {
			return err
		}
		i, err := WaitAny(t.Context(), m)
		c.in.End()
		if i != -1 || !errors.Is(err, ErrBusy) || strings.Contains(err.Error(), "request") {
			return fmt.Errorf("index %d: %w", i, err)
		}
		return errors.Join(Send(t.Context(), c, []int{0}, 0, 1), m.Wait(t.Context()))
	})
}
