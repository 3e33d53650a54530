package setup

import (
	"cmp"
	"strconv"

	"github.com/treerun/treerun/internal/waits"
)

// waitsOf returns the waits of w's job. A World without a connection to them knows its own only.
func waitsOf(w World) *waits.Job {
	job, _ := inJob(w, 0)
	if known, is := job.(interface{ Waits() *waits.Job }); is {
		return known.Waits()
	}
	return &waits.Job{Rank: job.Rank(), Size: job.Size()}
}

// FirstName is the name of the first communicator of a World.
const FirstName = "world"

// watchFor returns where the waits of a communicator of w are published.
func (c *Config) watchFor(w World) (watch *waits.Wait, name string) {
	job, ranks := waitsOf(w), []int(nil) // all of the job
	name = c.Name
	if sub, is := w.(*SubWorld); is {
		ranks = sub.ranks
		name = cmp.Or(name, sub.Name)
	} else if n := job.NewScope(); name == "" { // counted in any case: the ranks' numbers are the same
		name = FirstName
		if n > 1 {
			name += "#" + strconv.Itoa(n)
		}
	}
	watch = job.NewWait(name, ranks)
	watch.Every, watch.Limit = c.Stall, c.StallTimeout
	if c.StallTimeout > 0 {
		watch.LimitBy = "WithStallTimeout"
	}
	if limit := timeSetting(w, "stall-timeout"); limit > 0 && c.StallTimeout == 0 {
		if watch.Limit = limit; renews(w) { // the launcher ends the rank that others wait for, once they have reported it
			watch.Every, watch.Limit = min(c.Stall, limit), 0
		}
	}
	if c.Logger != nil {
		watch.Log = func(text string) { c.Logger.Warn(text) }
	}
	return watch, name
}
