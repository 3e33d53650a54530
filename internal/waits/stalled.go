package waits

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrStalled is what a wait ends with that took longer than the stall timeout.
var ErrStalled = errors.New("no progress within the stall timeout")

// Stalled returns the end of the latest wait that has reached the stall timeout, nil
// before. A wait that has got on in spite of it may be over.
func (w *Wait) Stalled() *Stalled {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalled
}

// Stalled is the error of such a wait.
type Stalled struct {
	Cause
	Waited time.Duration
	In     string
	self   int
	number uint64 // of the publication
}

// Error says who has waited for how long in what, and why.
func (s *Stalled) Error() string {
	return fmt.Sprintf("rank %d has waited %v in %s: %s (--stall-timeout)", s.self, s.Waited.Round(10*time.Millisecond),
		s.In, s.Text)
}

// Unwrap makes it an ErrStalled.
func (s *Stalled) Unwrap() error { return ErrStalled }

// AtFault returns the rank at fault, in the job's numbers, -1 when it is not one rank's.
func (s *Stalled) AtFault() int { return s.Rank }

// Bound returns a context that ends, with a *Stalled as its cause, when a wait reaches the
// stall timeout. cancel ends it, and is called in any case.
func (w *Wait) Bound(ctx context.Context) (within context.Context, cancel func()) {
	within, end := context.WithCancelCause(context.WithValue(ctx, key{}, w))
	w.mu.Lock()
	w.ended = end
	w.mu.Unlock()
	return within, func() {
		w.mu.Lock()
		w.ended = nil
		w.mu.Unlock()
		end(nil)
	}
}

type key struct{}

// Within returns the Wait whose Bound ctx is, nil when it is none: what is done for a
// communicator, such as an AllGather of the World, is published as that one's wait.
func Within(ctx context.Context) *Wait {
	w, _ := ctx.Value(key{}).(*Wait)
	return w
}
