package waits

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrStalled is the error of a wait that took longer than the stall timeout.
var ErrStalled = errors.New("no progress within the stall timeout")

// Stalled returns the error of the latest wait that has reached the stall timeout, nil if there is none. That wait may
// since have made progress and ended.
func (w *Wait) Stalled() *Stalled {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalled
}

// Stalled is the error of a wait that has reached the stall timeout.
type Stalled struct {
	Cause
	Waited time.Duration
	In     string
	self   int
	number uint64 // of the publication
	by     string // the setting that has the limit
}

// Error returns a message with the rank, the duration and the call of the wait, and its cause.
func (s *Stalled) Error() string {
	return fmt.Sprintf("rank %d has waited %v in %s: %s (%s)", s.self, s.Waited.Round(10*time.Millisecond), s.In, s.Text,
		s.by)
}

// Unwrap returns ErrStalled.
func (s *Stalled) Unwrap() error { return ErrStalled }

// AtFault returns the rank at fault, in the job's numbers, -1 if it is not a single rank.
func (s *Stalled) AtFault() int { return s.Rank }

// Bound returns a context that is canceled, with a *Stalled as its cause, when a wait reaches the stall timeout. The
// caller must call cancel in any case.
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

// Within returns the Wait whose Bound returned ctx, nil if there is none: an operation on behalf of a scope, such as an
// AllGather of the World, is published as a wait of that scope.
func Within(ctx context.Context) *Wait {
	w, _ := ctx.Value(key{}).(*Wait)
	return w
}
