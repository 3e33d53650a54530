package setup

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/treerun/treerun/internal/waits"
)

// part is the World of a communicator that was made of another one.
type part interface {
	InJob() (World, []int)
	InParent(rank int) int
	Call() string // that makes it
}

// InJob returns the World of the job whose ranks, or some of them, those of w are, and their numbers there, nil where
// these are the same.
func InJob(w World) (World, []int) {
	if of, is := w.(part); is {
		return of.InJob()
	}
	return w, nil
}

// numberOf returns the number of a rank of w for users: where w is a part, that in the communicator it is made of.
func numberOf(w World, rank int) int {
	if of, is := w.(part); is {
		return of.InParent(rank)
	}
	return rank
}

// doing names the call that makes a communicator of w, on this rank.
func doing(w World) string {
	call := "New"
	if of, is := w.(part); is {
		call = of.Call()
	}
	return fmt.Sprintf("%s on rank %d", call, numberOf(w, w.Rank()))
}

// jobOf returns the waits of its job that w knows, and the job's ranks that are those of w, nil where all are. A World
// without a connection to the job's waits knows its own only.
func jobOf(w World) (*waits.Job, []int) {
	top, ranks := InJob(w)
	if known, is := top.(interface{ Waits() *waits.Job }); is {
		return known.Waits(), ranks
	}
	return &waits.Job{Rank: top.Rank(), Size: top.Size()}, ranks
}

// FirstName is the name of the first communicator of a World.
const FirstName = "world"

// watchFor returns where the waits of a communicator of w are published.
func (c *Config) watchFor(w World) (watch *waits.Wait, name string) {
	job, ranks := jobOf(w)
	name = c.Name
	if _, is := w.(part); !is {
		n := job.Comms() // counted in any case: the ranks' numbers are the same
		if name == "" {
			name = FirstName
			if n > 1 {
				name += "#" + strconv.Itoa(n)
			}
		}
	} else if name == "" {
		name = c.SplitName
	}
	watch = job.NewWait(name, ranks)
	watch.Every, watch.Limit = c.Stall, cmp.Or(c.StallTimeout, timeSetting(w, "stall-timeout"))
	if c.Logger != nil {
		watch.Log = func(text string) { c.Logger.Warn(text) }
	}
	return watch, name
}
