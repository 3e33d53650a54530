package drive

import (
	"context"
	"runtime"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Exchange is a protocol in progress on this rank.
type Exchange interface {
	// Poll makes the progress that is possible now, and reports whether there was any. Precondition: not Done.
	Poll() (moved bool, err error)

	// Done reports whether this rank's part is done.
	Done() bool

	// WaitsFor returns the missing messages, and the ranks that have to send them if these are known.
	WaitsFor() []waits.Blocker

	// shouldYield reports whether a rank that shares its core should yield it now, because it has much to do by
	// itself.
	shouldYield() bool

	// at returns the rank, and its links.
	at() *rankLinks
}

// yieldPart is the divisor of a backoff for the sleep of a rank that shouldYield: it has work to do.
const yieldPart = 3

// maxBackoffs is the number of backoffs in a row without progress before a rank that shares its core sleeps on its
// bell.
const maxBackoffs = 20

// Run polls x until it is done, and waits in between as w specifies. It returns the fault of the links if x could not
// be completed, here or on another rank; the links are then unusable. doing names the call.
func Run(ctx context.Context, x Exchange, w *engine.Waiter, doing string) (transport.Fault, bool) {
	r := &run{Exchange: x, waiter: w, links: x.at(), doing: doing}
	if err := r.wait(ctx); err != nil {
		return w.Fail(err, r.links.ep, r.links.rank, doing, r.WaitsFor)
	}
	return transport.Fault{}, false
}

// run is an Exchange that a rank runs, and waits for.
type run struct {
	Exchange
	waiter *engine.Waiter
	links  *rankLinks
	doing  string
}

func (r *run) wait(ctx context.Context) error {
	w, ep := r.waiter, r.links.ep
	idle, yields, backoffs := 0, w.Spins+w.Yields, 0
	if w.Backoff > 0 {
		yields, backoffs = w.Spins, maxBackoffs
	}
	var asleep engine.Sleeper
	for {
		moved, err := r.Poll()
		if err != nil {
			return err
		}
		if r.Done() {
			asleep.End(w.Watch)
			return nil
		}
		if w.Backoff > 0 && r.shouldYield() {
			time.Sleep(w.Backoff / yieldPart)
		}
		idle++
		switch {
		case moved:
			idle = 0
			asleep.End(w.Watch)
		case idle < w.Spins:
		case idle < yields:
			runtime.Gosched() // others of this rank wait, too
			ep.Bell().Yield()
			if asleep.Tired(idle) {
				idle = yields + backoffs
			}
		case idle < yields+backoffs:
			time.Sleep(w.Backoff)
		default:
			if err := asleep.Sleep(ctx, ep, w.Watch, r); err != nil {
				return err
			}
		}
		if idle&63 == 63 || idle > yields {
			if err := engine.Aborted(ep); err != nil {
				return err
			}
		}
	}
}

// Poll polls the Exchange until it is done; the end counts as progress.
func (r *run) Poll() (moved bool, err error) {
	if r.Done() { // the last poll before a sleep comes after the end
		return true, nil
	}
	moved, err = r.Exchange.Poll()
	return moved || r.Done(), err
}

// Compare does nothing: the greeting has compared the calls.
func (r *run) Compare() error { return nil }

// Doing returns the name of the call.
func (r *run) Doing() string { return r.doing }
