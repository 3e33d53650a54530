// Package backoff waits for events without a notification, such as the end of work on a GPU: it polls repeatedly, at
// first without a pause, then with a yield in between, then with a sleep. Retry is the pause between attempts that cost
// more than a poll, such as connections.
package backoff

import (
	"runtime"
	"time"
)

const (
	spins  = 50 * time.Microsecond // time without a pause between two polls: the shortest work takes less
	yields = 2 * time.Millisecond  // time from the beginning of the wait in which others run between two polls
	part   = 16                    // after that a sleep takes this part of the time waited
)

// Wait is one wait.
type Wait struct {
	Max   time.Duration // of a sleep
	began time.Time
}

// Pause passes the time until the next poll. One goroutine calls it.
func (w *Wait) Pause() {
	now := time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	switch waited := now.Sub(w.began); {
	case waited < spins:
	case waited < yields:
		runtime.Gosched()
		Yield() // a rank that is waited for may share this core
	default:
		Nap(min(waited/part, w.Max))
	}
}

// Moved restarts the wait after an event: the wait for the next one begins with the next Pause.
func (w *Wait) Moved() { w.began = time.Time{} }

// Until calls done repeatedly until it returns true; a sleep in between takes limit at most.
func Until(limit time.Duration, done func() bool) {
	for w := (Wait{Max: limit}); !done(); {
		w.Pause()
	}
}

// Poll calls done repeatedly until it returns true or an error, or stop returns an error.
func Poll(limit time.Duration, stop func() error, done func() (bool, error)) (err error) {
	Until(limit, func() bool {
		ok := false
		if ok, err = done(); !ok && err == nil {
			err = stop()
		}
		return ok || err != nil
	})
	return err
}
