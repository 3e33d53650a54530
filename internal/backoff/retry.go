package backoff

import (
	"context"
	"time"
)

// Retry is the pause between attempts: it doubles from Min to Max.
type Retry struct {
	Min, Max time.Duration
	latest   time.Duration
}

// Pause passes the time until the next attempt. It returns false, at once, when ctx has ended.
func (r *Retry) Pause(ctx context.Context) bool {
	r.latest = min(max(2*r.latest, r.Min), r.Max)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(r.latest):
		return true
	}
}
