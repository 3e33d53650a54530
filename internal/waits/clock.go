package waits

import (
	"cmp"
	"time"
)

// maxTick is the longest interval between two ticks of a clock.
const maxTick = time.Second

// clock measures a published wait for reports and the stall timeout. It ticks more often than they need: a late tick
// shows that this rank itself was stopped, or had no core, and other ranks are not to blame for that time. The mutex of
// the Wait is held.
type clock struct {
	tick   time.Duration // 0: it does not tick
	onTick func()
	timer  *time.Timer
	due    time.Time
	asleep time.Duration // time in which this rank did not run
}

// start restarts the clock; it does not tick if neither interval is positive.
func (c *clock) start(every, limit time.Duration, onTick func()) {
	c.stop()
	*c = clock{onTick: onTick}
	for _, d := range []time.Duration{every, limit} {
		if d > 0 {
			c.tick = min(cmp.Or(c.tick, maxTick), max(d/8, time.Millisecond))
		}
	}
	c.arm()
}

// arm sets the timer for the next tick.
func (c *clock) arm() {
	if c.tick > 0 {
		c.due = time.Now().Add(c.tick)
		c.timer = time.AfterFunc(c.tick, c.onTick)
	}
}

// since returns the time from begin to a tick in which this rank ran.
func (c *clock) since(begin time.Time) time.Duration {
	if late := time.Since(c.due); late > c.tick {
		c.asleep += late
	}
	return time.Since(begin) - c.asleep
}

// stop ends the ticks.
func (c *clock) stop() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
