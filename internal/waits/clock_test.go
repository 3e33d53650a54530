package waits

import (
	"testing"
	"testing/synctest"
	"time"
)

// Time in which a rank did not run, so that its clock ticked late, does not count.
func TestClockOfARankThatWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var c clock
		c.start(time.Minute, 16*time.Second, func() {})
		for _, step := range []struct{ after, want time.Duration }{
			{time.Second, time.Second},
			{1900 * time.Millisecond, 2900 * time.Millisecond}, // as late as a busy machine may make it
			{5 * time.Second, 3900 * time.Millisecond},
			{time.Second, 4900 * time.Millisecond},
		} {
			time.Sleep(step.after)
			if got := c.since(begin); got != step.want {
				t.Errorf("after %v: %v, want %v", time.Since(begin), got, step.want)
			}
			c.stop()
			c.arm()
		}
		c.stop()
	})
}
