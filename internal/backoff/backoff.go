// Package backoff waits for what nobody announces, such as the work of a GPU: it asks again and again, at first at
// once, then with a yield in between, then with a sleep.
package backoff

import (
	"runtime"
	"syscall"
	"time"
)

const (
	spins  = 50 * time.Microsecond // for as long nothing happens between two questions: the shortest work takes less
	yields = 2 * time.Millisecond  // and from then on as long other goroutines run
	part   = 16                    // after that a sleep is this part of the time waited
)

// Wait is one wait.
type Wait struct {
	Max   time.Duration // of a sleep
	began time.Time
}

// Pause passes the time until the next question. One goroutine calls it.
func (w *Wait) Pause() {
	now := time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	switch waited := now.Sub(w.began); {
	case waited < spins:
	case waited < yields:
		runtime.Gosched()
	default:
		// time.Sleep takes a millisecond at least, as an idle runtime asks the kernel for whole ones. A signal may end
		// this one early.
		t := syscall.NsecToTimespec(int64(min(waited/part, w.Max)))
		_ = syscall.Nanosleep(&t, nil)
	}
}

// Moved says that something has come: what is waited for now begins now.
func (w *Wait) Moved() { w.began = time.Time{} }

// Until asks done again and again until it is true; a sleep in between takes max at most.
func Until(max time.Duration, done func() bool) {
	for w := (Wait{Max: max}); !done(); {
		w.Pause()
	}
}

// Poll asks done again and again until it is true or an error, or stop returns one.
func Poll(max time.Duration, stop func() error, done func() (bool, error)) (err error) {
	Until(max, func() bool {
		ok := false
		if ok, err = done(); !ok && err == nil {
			err = stop()
		}
		return ok || err != nil
	})
	return err
}
