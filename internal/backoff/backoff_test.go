package backoff

import (
	"slices"
	"testing"
	"time"
)

// A wait whose answer comes after a time returns soon after it. On a machine with other load, a loop that only reads
// the clock is late as well: that delay is not charged to the wait.
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

// median returns the median time that wait takes, of 20 times, when the answer comes after a time.
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
