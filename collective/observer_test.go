package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestObserver: every form of a call is reported once, when it ends, with the bytes of its message; a call that is
// started also by its Wait. The observer runs in the goroutine of the call.
func TestObserver(t *testing.T) {
	events := make([][]Event, countedSize)
	mustRun(t, countedSize, func(w *fakeWorld, _ *Comm) error {
		c, err := New(t.Context(), w, WithName("observed"), WithObserver(func(e Event) {
			events[w.Rank()] = append(events[w.Rank()], e)
		}))
		if err != nil {
			return err
		}
		for _, f := range countedForms {
			if f.row == "Send" || f.row == "Split" {
				continue // a SendRecv is one event, a Recv, and a Split has several steps
			}
			events[c.Rank()] = nil
			if err := f.make(t.Context(), c); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			calls, bytes := int64(0), int64(0)
			for _, e := range events[c.Rank()] {
				if e.Took < e.Waited || e.Took <= 0 || e.Err != nil || e.Comm != "observed" {
					return fmt.Errorf("%s: %+v", f.name, e)
				}
				if e.Call == f.row && !e.Resumed {
					calls, bytes = calls+1, bytes+e.Bytes
				}
			}
			if calls != f.calls || bytes != f.bytes && f.row != "Recv" { // a Recv is reported with the room for it
				return fmt.Errorf("%s: %s is reported %d times with %d bytes, want %d with %d: %+v", f.name, f.row, calls, bytes,
					f.calls, f.bytes, events[c.Rank()])
			}
		}
		return c.Close()
	})
}

// TestObserverOfStart: a call that is started is reported when Start returns, and again when Wait returns.
func TestObserverOfStart(t *testing.T) {
	mustRun(t, 2, func(w *fakeWorld, _ *Comm) error {
		var events []Event
		c, err := New(t.Context(), w, WithObserver(func(e Event) { events = append(events, e) }))
		if err != nil {
			return err
		}
		x := make([]float32, 1<<20)
		r, err := StartAllReduce(c, x, x, Sum)
		if err == nil {
			err = r.Wait(t.Context())
		}
		if err != nil {
			return err
		}
		begun := func(e Event) bool { return e.Begun && !e.Resumed && e.Number == 1 && e.Algorithm != "" }
		resumed := func(e Event) bool { return e.Resumed && !e.Begun && e.Number == 1 }
		if len(events) != 2 || !begun(events[0]) || !resumed(events[1]) {
			return fmt.Errorf("events %+v", events)
		}
		return c.Close()
	})
}

// TestObserverOfFailure: a call that fails is reported with the failure. Every small call is reported.
func TestObserverOfFailure(t *testing.T) {
	mustRun(t, 2, func(w *fakeWorld, _ *Comm) error {
		var events []Event
		c, err := New(t.Context(), w, WithObserver(func(e Event) { events = append(events, e) }))
		if err != nil {
			return err
		}
		defer c.Close()
		for range 500 {
			if err := Barrier(t.Context(), c); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if c.Rank() == 0 {
			err = Barrier(ctx, c)
		} else {
			_, err = Recv(t.Context(), c, make([]float32, 1), 0, 0)
		}
		last := events[len(events)-1]
		ok := func(e Event) bool { return e.Call == "Barrier" && e.Err == nil }
		if err == nil || len(events) != 501 || !errors.Is(last.Err, context.DeadlineExceeded) && last.Err == nil ||
			slices.ContainsFunc(events[:500], func(e Event) bool { return !ok(e) }) {
			return fmt.Errorf("%v: %d events, the last %+v", err, len(events), last)
		}
		return nil
	})
}
