package omni

import "testing"

func TestTimers(t *testing.T) {
	timers := NewTimers(3, 100)
	if _, ok := timers.Next(); ok || timers.Expired(1e18) >= 0 {
		t.Error("expires before anything was sent")
	}
	timers.Sent(0, 1000, 1)
	timers.Sent(2, 1000, 4) // in a burst
	if at, ok := timers.Next(); !ok || at != 1100 {
		t.Errorf("the first expires at %d", at)
	}
	if s := timers.Expired(1099); s >= 0 {
		t.Errorf("stream %d expires early", s)
	}
	// Every repetition doubles the wait, up to 8 times the first.
	now := int64(1000)
	for i, wait := range []int64{100, 200, 400, 800, 800, 800} {
		now += wait
		if timers.Expired(now-1) == 0 || timers.Expired(now) != 0 {
			t.Errorf("repetition %d does not come at %d", i, now)
		}
		timers.Ended(2)
	}
	timers.Sent(0, 10_000, 1) // progress: the wait is short again
	if at, _ := timers.Next(); at != 10_100 {
		t.Errorf("after progress it expires at %d", at)
	}
	timers.Ended(0)
	if _, ok := timers.Next(); ok {
		t.Error("expires although nothing is under way")
	}
}
