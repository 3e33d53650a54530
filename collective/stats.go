package collective

import (
	"fmt"
	"strings"
	"time"
)

// Stats is what this rank has done on a communicator since it was made.
type Stats struct {
	Name  string // of the communicator
	Calls []CallStats
}

// CallStats is what this rank's calls of one sort came to. Forms of a collective count as one: AllReduceCoalesced,
// StartAllReduce and a Persistent are AllReduce, and AllGatherV is AllGather. SendRecv is a Send and a Recv, which has
// the time of both. Dup, StartDup and Sub are Split; "Sparse" are calls of package sparse, without their bytes.
type CallStats struct {
	Call  string // "AllReduce"
	Count int64  // calls that have begun

	// Bytes is the length of their messages in bytes, that of all parts where a message has parts: n ranks that gather
	// 1000 float32 each have 4000 n. It is not what went over links.
	Bytes int64

	// Time is what the rank spent in these calls, and in Wait and Test for them; of device calls it is the time until
	// they are in their streams. Calls of 32 KiB or more, waits, and the first 32 of all are timed; of smaller ones
	// each 251st stands for all, as a look at the clock would slow them down.
	Time time.Duration

	// Waiting is the part of Time in which the rank slept for want of another rank, or had given its core away 32
	// times in vain. Waits of less than some tens of microseconds do not count, nor do those that are not over or have
	// failed.
	Waiting time.Duration
}

// Stats returns what this rank has done on c. Any goroutine may call it, while calls run and after Close. It asks no
// other rank.
func (c *Comm) Stats() Stats {
	s := Stats{Name: c.Name()}
	c.inner().Stats(func(name string, calls, bytes int64, taken, waited time.Duration) {
		s.Calls = append(s.Calls, CallStats{name, calls, bytes, taken, waited})
	})
	return s
}

// String returns a table, for people.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %12s %12s %12s %12s\n", s.Name, "calls", "bytes", "time", "waiting")
	for _, c := range s.Calls {
		fmt.Fprintf(&b, "%-14s %12d %12d %12v %12v\n", c.Call, c.Count, c.Bytes,
			c.Time.Round(time.Microsecond), c.Waiting.Round(time.Microsecond))
	}
	return b.String()
}
