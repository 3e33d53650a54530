package testutil

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Common helpers for tests of transports: layouts, and sending and waiting in the way of a collective's executor.

// Limit is the time after which an operation in these tests counts as hung. It does not bound speed.
const Limit = 3 * time.Minute

// Nap bounds one sleep on a bell in a test that relies on being rung: a lost wake-up then fails the test by Limit.
const Nap = 2 * Limit

// Pair returns a layout of two ranks.
func Pair(slots, slotBytes int) transport.Layout {
	return transport.Layout{Size: 2, Slots: slots, SlotBytes: slotBytes}
}

// Links returns the links that connect opens on each of the given number of ranks, which are goroutines of the test on
// one host.
func Links(t testing.TB, ranks int, connect func(*World) (transport.Endpoint, error)) []transport.Endpoint {
	t.Helper()
	all := make([]transport.Endpoint, ranks)
	errs := NewJob(OneHost(ranks)...).Run(t, func(w *World) (err error) {
		all[w.Rank()], err = connect(w)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

// ErrAborted is the error of a wait that ends because the set has a fault.
var ErrAborted = errors.New("aborted")

// Wait calls poll until it returns true or an error, and sleeps on e's bell after the given number of unsuccessful
// polls, as the executor of a collective does. It ends if the set has a fault.
func Wait(e transport.Endpoint, polls int, poll func() (bool, error)) error {
	b := e.Bell()
	for {
		for range polls {
			if ok, err := poll(); ok || err != nil {
				return err
			}
			b.Yield()
		}
		b.Prepare()
		ok, err := poll()
		f, aborted := e.Aborted()
		if ok || err != nil || aborted {
			b.Cancel()
			if !ok && err == nil {
				err = fmt.Errorf("%w: rank %d: %s", ErrAborted, f.Rank, f.Text)
			}
			return err
		}
		b.Sleep(Nap)
	}
}

// polls is the number of polls before a rank sleeps.
const polls = 20

// Send waits for a slot and sends n bytes that fill writes.
func Send(e transport.Endpoint, s transport.Sender, h *call.Header, n int, fill func([]byte)) error {
	return Wait(e, polls, TrySend(s, h, n, fill))
}

// TrySend returns a poll function that sends n bytes, written by fill, as soon as there is a slot.
func TrySend(s transport.Sender, h *call.Header, n int, fill func([]byte)) func() (bool, error) {
	return func() (bool, error) {
		w, ok, err := s.TryReserve(n)
		if ok {
			fill(w)
			s.Commit(h)
		}
		return ok, err
	}
}

// Receive waits for a chunk, passes it to use, and releases it.
func Receive(e transport.Endpoint, r transport.Receiver, use func(call.Header, []byte) error) error {
	return Wait(e, polls, TryReceive(r, use))
}

// TryReceive returns a poll function that passes a chunk to use, and releases it, as soon as there is one.
func TryReceive(r transport.Receiver, use func(call.Header, []byte) error) func() (bool, error) {
	return func() (bool, error) {
		var h call.Header
		w, ok, err := r.TryPeek(&h)
		if ok {
			err = use(h, w)
			r.Release()
		}
		return ok, err
	}
}

// AwaitFault waits up to Limit for the fault of e's set, and returns it.
func AwaitFault(e transport.Endpoint) transport.Fault {
	for end := time.Now().Add(Limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f, ok := e.Aborted(); ok {
			return f
		}
	}
	return transport.Fault{Rank: -1, Text: "no fault"}
}
