package backoff

import (
	"slices"
	"testing"
	"time"
)

// A wait whose answer comes after a time returns soon after it. On a machine that does other things, too, a loop
// that does nothing but look at the clock is late as well: what it is late is no fault of the wait's.
func TestLate(t *testing.T) {
	for _, c := range []struct{ after, late time.Duration }{
		{300 * time.Microsecond, 100 * time.Microsecond},
		{time.Millisecond, 100 * time.Microsecond},
		{10 * time.Millisecond, 700 * time.Microsecond},
	} {
		var waited, most time.Duration
		for try := 0; try < 10 && (try == 0 || waited > most); try++ {
			waited = median(func(came func() bool) { Until(200*time.Microsecond, came) }, c.after)
			spun := median(func(came func() bool) {
				for !came() {
				}
			}, c.after)
			most = max(c.after, spun) + c.late
		}
		if waited > most {
			t.Errorf("an answer after %v was seen after %v, want at most %v", c.after, waited, most)
		}
	}
}

// median is how long wait takes, of 20 times, when the answer comes after a time.
func median(wait func(came func() bool), after time.Duration) time.Duration {
	times := make([]time.Duration, 20)
	for i := range times {
		began := time.Now()
		wait(func() bool { return time.Since(began) >= after })
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// One for which things come one after the other never comes to sleep.
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
