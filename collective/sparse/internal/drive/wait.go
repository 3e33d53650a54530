package drive

import (
	"context"
	"errors"
	"time"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Exchange is a protocol under way on this rank.
type Exchange interface {
	// Poll moves what can be moved now, and reports whether that was anything.
	Poll() (moved bool, err error)

	// Done reports whether this rank's part is done.
	Done() bool

	// WaitsFor says what is missing, and of which ranks where that is known.
	WaitsFor() []waits.Lack

	// Streams reports whether the peers send on, while there is room on their links: what
	// a rank takes in a little later costs nobody anything.
	Streams() bool

	// Rests reports whether a rank that shares its core should let others have it now, as it
	// has much to do by itself.
	Rests() bool
}

// restPart is which part of a nap such a rank then does nothing for: it has something to do.
const restPart = 3

// maxNaps is how often in a row such a rank naps for nothing before it sleeps on its
// bell.
const maxNaps = 20

// Run polls x until it is done, and waits in between as w says. It returns the
// fault of the links if x could not be completed, here or on another rank; the
// links are then of no further use. doing names the call.
func (k *Links) Run(ctx context.Context, x Exchange, w *engine.Waiter, doing string) (transport.Fault, bool) {
	err := k.wait(ctx, x, w, doing)
	switch {
	case err == nil:
		return transport.Fault{}, false
	case errors.Is(err, waits.ErrStalled), errors.Is(err, context.DeadlineExceeded):
		k.ep.Abort(w.WaitFault(err, k.rank, doing, x.WaitsFor()))
		w.Watch.GiveUp()
		return k.ep.Aborted()
	case err != engine.ErrAborted:
		if _, aborted := k.ep.Aborted(); !aborted {
			k.ep.Abort(k.faultOf(err, x, w, doing))
		}
	}
	w.Watch.Clear()
	return k.ep.Aborted()
}

func (k *Links) wait(ctx context.Context, x Exchange, w *engine.Waiter, doing string) error {
	idle, yields, naps := 0, w.Spins+w.Yields, 0
	if x.Streams() && w.Backoff > 0 {
		yields, naps = w.Spins, maxNaps
	}
	var asleep engine.Sleeper
	what := &waiting{x, doing}
	for {
		moved, err := x.Poll()
		if err != nil {
			return err
		}
		if x.Done() {
			asleep.End(w.Watch)
			return nil
		}
		if w.Backoff > 0 && x.Rests() {
			time.Sleep(w.Backoff / restPart)
		}
		idle++
		switch {
		case moved:
			idle = 0
			asleep.End(w.Watch)
		case idle < w.Spins:
		case idle < yields:
			k.ep.Bell().Yield()
			if asleep.Tired(idle) {
				idle = yields + naps
			}
		case idle < yields+naps:
			time.Sleep(w.Backoff)
		default:
			if err := asleep.Sleep(ctx, k.ep, w.Watch, what); err != nil {
				return err
			}
		}
		if idle&63 == 63 || idle > yields {
			if _, aborted := k.ep.Aborted(); aborted {
				return engine.ErrAborted
			}
		}
	}
}

// waiting is an Exchange that this rank sleeps for.
type waiting struct {
	Exchange
	doing string
}

func (w *waiting) Poll() (moved bool, err error) {
	moved, err = w.Exchange.Poll()
	return moved || w.Done(), err
}

func (w *waiting) Compare() error { return nil }
func (w *waiting) Doing() string  { return w.doing }

// faultOf turns what stopped this rank into what all ranks are told.
func (k *Links) faultOf(err error, x Exchange, w *engine.Waiter, doing string) transport.Fault {
	peer := -1
	var p *peerError
	if errors.As(err, &p) {
		peer = p.peer
	}
	switch {
	case errors.Is(err, transport.ErrPeerClosed):
		return engine.ClosedBy(peer, k.rank, doing)
	case errors.Is(err, block.ErrMismatch):
		return transport.Faultf(transport.FaultMismatch, peer, "rank %d in %s: %v", k.rank, doing, err)
	case errors.Is(err, context.Canceled):
		return w.WaitFault(err, k.rank, doing, x.WaitsFor())
	}
	return transport.Faultf(transport.FaultLink, k.rank, "rank %d in %s: %v", k.rank, doing, err)
}
