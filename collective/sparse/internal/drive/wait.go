package drive

import (
	"context"
	"runtime"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Exchange is a protocol under way on this rank.
type Exchange interface {
	// Poll moves what can be moved now, and reports whether that was anything. Precondition: not Done.
	Poll() (moved bool, err error)

	// Done reports whether this rank's part is done.
	Done() bool

	// WaitsFor says what is missing, and of which ranks where that is known.
	WaitsFor() []waits.Lack

	// Rests reports whether a rank that shares its core should let others have it now, as it
	// has much to do by itself.
	Rests() bool

	// at says on which rank, and over which links.
	at() *place
}

// restPart is which part of a backoff such a rank then does nothing for: it has something to do.
const restPart = 3

// maxBackoffs is how often in a row such a rank backs off for nothing before it sleeps on its
// bell.
const maxBackoffs = 20

// Run polls x until it is done, and waits in between as
// w says. It returns the fault of the links if x could not be completed, here or on another rank; the
// links are then of no further use. doing names the call.
func Run(ctx context.Context, x Exchange, w *engine.Waiter, doing string) (transport.Fault, bool) {
	r := &run{Exchange: x, Waiter: w, place: x.at(), doing: doing}
	if err := r.wait(ctx); err != nil {
		return w.Fail(err, r.ep, r.rank, doing, r.WaitsFor)
	}
	return transport.Fault{}, false
}

// run is an Exchange that a rank runs, and waits for.
type run struct {
	Exchange
	*engine.Waiter
	*place
	doing string
}

func (r *run) wait(ctx context.Context) error {
	idle, yields, backoffs := 0, r.Spins+r.Yields, 0
	if r.Backoff > 0 {
		yields, backoffs = r.Spins, maxBackoffs
	}
	var asleep engine.Sleeper
	for {
		moved, err := r.Poll()
		if err != nil {
			return err
		}
		if r.Done() {
			asleep.End(r.Watch)
			return nil
		}
		if r.Backoff > 0 && r.Rests() {
			time.Sleep(r.Backoff / restPart)
		}
		idle++
		switch {
		case moved:
			idle = 0
			asleep.End(r.Watch)
		case idle < r.Spins:
		case idle < yields:
			runtime.Gosched() // others of this rank wait, too
			r.ep.Bell().Yield()
			if asleep.Tired(idle) {
				idle = yields + backoffs
			}
		case idle < yields+backoffs:
			time.Sleep(r.Backoff)
		default:
			if err := asleep.Sleep(ctx, r.ep, r.Watch, r); err != nil {
				return err
			}
		}
		if idle&63 == 63 || idle > yields {
			if _, aborted := r.ep.Aborted(); aborted {
				return engine.ErrAborted
			}
		}
	}
}

// Poll is that of the Exchange until it is done; the end counts as something that moved.
func (r *run) Poll() (moved bool, err error) {
	if r.Done() { // whoever was about to sleep has looked once more
		return true, nil
	}
	moved, err = r.Exchange.Poll()
	return moved || r.Done(), err
}

// Compare compares nothing: the greeting has.
func (r *run) Compare() error { return nil }

// Doing names the call.
func (r *run) Doing() string { return r.doing }
