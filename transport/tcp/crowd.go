package tcp

import (
	"time"

	"github.com/treerun/treerun/transport/internal/osys"
)

// crowd detects a program that computes on the core of this rank. A yield to it takes all of its slice, some
// milliseconds, as the kernel takes a rank that yields for idle. A rank that sleeps instead gets the core at once when
// something arrives for it. A yield to another rank may be long, too, now and then.
type crowd struct {
	until    time.Time // the rank sleeps in place of yields; zero: it yields
	score    int       // rises with long yields, falls with others
	attempts int       // how often the core was crowded since the score was last zero
}

const (
	longYield    = 1200 * time.Microsecond // nearly a slice; a yield to ranks of the job takes some microseconds
	forLong      = 16                      // the score of a long yield; others have -1
	crowdedScore = 24                      // two long yields among some
	retryScore   = 16                      // after some time without yields, so that one is enough
	crowdedFor   = 32                      // this time, in times of the last long yield
	widenAfter   = 3                       // attempts until the rank may run on all cores
)

// add adds a yield that began at a time. It reports whether the rank should look for another core.
func (c *crowd) add(began time.Time, took time.Duration) (widen bool) {
	if took < longYield {
		if c.score = max(c.score-1, 0); c.score == 0 {
			c.attempts = 0
		}
		return false
	}
	if c.score += forLong; c.score < crowdedScore {
		return false
	}
	c.score, c.until = retryScore, began.Add((1+crowdedFor)*took)
	c.attempts++
	return c.attempts >= widenAfter
}

// isAt reports whether the core is crowded at a time.
func (c *crowd) isAt(now time.Time) bool {
	if !now.Before(c.until) {
		c.until = time.Time{}
	}
	return !c.until.IsZero()
}

// Yield lets another process run, unless the core is crowded.
func (b *bell) Yield() {
	if b.Crowded() {
		return
	}
	began := time.Now()
	b.Bell.Yield()
	if b.crowd.add(began, time.Since(began)) && len(b.e.net.cfg.Cores) > 0 {
		osys.WidenThread(b.e.net.cfg.Cores)
	}
}

// Crowded reports whether the owner should sleep in place of yields.
func (b *bell) Crowded() bool { return !b.crowd.until.IsZero() && b.crowd.isAt(time.Now()) }
