package backoff

import (
	"testing"
	"time"
)

// A wait whose answer comes after a time returns soon after it. On a machine with other load most waits take longer, as
// they let others run: one of many does not.
func TestLate(t *testing.T) {
	for _, c := range []struct{ after, late time.Duration }{
		{300 * time.Microsecond, 100 * time.Microsecond},
		{time.Millisecond, 100 * time.Microsecond},
		{10 * time.Millisecond, 700 * time.Microsecond},
	} {
		waited := time.Hour
		for begin := time.Now(); waited > c.after+c.late && time.Since(begin) < 20*time.Second; {
			began := time.Now()
			Until(200*time.Microsecond, func() bool { return time.Since(began) >= c.after })
			waited = min(waited, time.Since(began))
		}
		if waited > c.after+c.late {
			t.Errorf("an answer after %v was seen after %v, at best", c.after, waited)
		}
	}
}

// A wait with one event after another never sleeps.
func TestMoved(t *testing.T) {
	w := Wait{}
	for range 3 {
		for began := time.Now(); time.Since(began) < yields; {
			w.Pause()
		}
		w.Moved()
		if !w.began.IsZero() {
			t.Fatal("the next wait began before the first question")
		}
	}
}
