package collective

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNameOfAMessageThatWentOut: an error names the message of the call, also if the message had been sent before the
// fault was seen.
func TestNameOfAMessageThatWentOut(t *testing.T) {
	errs := newFakeJob(2).run(t, func(w *fakeWorld) error {
		c, err := New(t.Context(), w, overMem, WithTopoCache(""))
		if err != nil {
			return err
		}
		defer c.Close()
		if c.Rank() == 1 {
			c.Abort(errors.New("enough"))
			return nil
		}
		for failed := false; !failed; _, failed = c.in.Endpoint.Aborted() {
			runtime.Gosched()
		}
		return Send(t.Context(), c, []int32{1, 2, 3}, 1, 5)
	})
	if !errors.Is(errs[0], ErrAborted) || !strings.Contains(errs[0].Error(), "Send (3 int32, tag 5)") {
		t.Errorf("%v, want the Send of 3 int32", errs[0])
	}
}

// A message that is shorter than the slice leaves the rest unchanged, whether it arrives before its Recv or after.
func TestShorterMessages(t *testing.T) {
	for _, count := range []int{0, 1, 100, 50_000} { // by one chunk, and by many, which may be read in place
		mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 0 {
				for range 2 {
					if err := Send(t.Context(), c, slices.Repeat([]int32{5}, count), 1, 7); err != nil {
						return err
					}
				}
				return Barrier(t.Context(), c)
			}
			for range 2 {
				buf := make([]int32, count+3)
				n, err := Recv(t.Context(), c, buf, 0, 7)
				if err != nil || n != count {
					return fmt.Errorf("%d elements, want %d: %w", n, count, err)
				}
				for i, v := range buf {
					if want := map[bool]int32{true: 5}[i < n]; v != want {
						return fmt.Errorf("element %d of %d is %d, want %d", i, n, v, want)
					}
				}
			}
			return Barrier(t.Context(), c)
		})
	}
}

// A rank may send to itself: before it receives, after, and in a cycle of one.
func TestMessagesToOneself(t *testing.T) {
	for _, size := range []int{1, 3} {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			me, x := c.Rank(), make([]int64, 4)
			if err := Send(t.Context(), c, []int64{1, 2}, me, 7); err != nil {
				return err
			}
			if n, err := Recv(t.Context(), c, x, me, 7); err != nil || n != 2 || x[1] != 2 {
				return fmt.Errorf("%v: %d, %w", x, n, err)
			}
			m, err := StartRecv(c, x, me, 8)
			if err != nil {
				return err
			}
			if done, err := m.Test(); done || err != nil {
				return fmt.Errorf("done %v before anything was sent, %w", done, err)
			}
			err = errors.Join(Send(t.Context(), c, []int64{3, 4, 5, 6}, me, 8), m.Wait(t.Context()))
			if err != nil || x[3] != 6 {
				return fmt.Errorf("%v: %w", x, err)
			}
			if st, err := SendRecv(t.Context(), c, []int64{7}, me, x, AnySource, 9); err != nil || st != (Status{me, 9, 1}) ||
				x[0] != 7 {
				return fmt.Errorf("%v: %v, %w", x, st, err)
			}
			return Barrier(t.Context(), c)
		})
	}
}

// SendRecv from any source: every rank sends to the next one and receives a message of any length.
func TestSendRecvOfAny(t *testing.T) {
	for _, count := range []int{0, 3, 40_000} { // nothing, by one chunk, and longer than what a Send keeps
		mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
			next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			buf := make([]float64, count+c.Size())
			st, err := SendRecv(t.Context(), c, slices.Repeat([]float64{float64(c.Rank())}, count+c.Rank()), next, buf,
				AnySource, 4)
			if want := (Status{before, 4, count + before}); err != nil || st != want ||
				st.Count > 0 && buf[st.Count-1] != float64(before) {
				return fmt.Errorf("%+v, want %+v: %w", st, want, err)
			}
			_, err = SendRecv(t.Context(), c, buf[:0], next, buf, before, AnyTag)
			if !errors.Is(err, ErrArgument) {
				return fmt.Errorf("a SendRecv with any tag: %w", err)
			}
			return Barrier(t.Context(), c)
		})
	}
}

// TestRecvAfterAnySource: a Receive from one rank ends when that rank has closed, also after one from any rank that had
// to wait; and messages after such a one find their receives.
func TestRecvAfterAnySource(t *testing.T) {
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 2 {
			return nil // it stays open
		}
		x := []int32{7}
		if c.Rank() == 1 {
			time.Sleep(20 * time.Millisecond) // rank 0 waits
			for range 3 {
				if err := Send(t.Context(), c, x, 0, 5); err != nil {
					return err
				}
			}
			return c.Close()
		}
		for i := range 3 {
			got := []int32{0}
			from := 1
			if i == 0 {
				from = AnySource
			}
			if _, err := Recv(t.Context(), c, got, from, 5); err != nil || got[0] != 7 {
				return fmt.Errorf("message %d: %v, %w", i, got, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := Recv(ctx, c, x, 1, 5)
		if !errors.Is(err, ErrPeerClosed) || ctx.Err() != nil {
			return fmt.Errorf("a Receive from a rank that has closed: %v, want ErrPeerClosed", err)
		}
		return nil
	}) {
		if err != nil && !(r != 0 && errors.Is(err, ErrPeerClosed)) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
