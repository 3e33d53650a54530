package collective

import (
	"fmt"
	"strings"
	"time"
)

// Stats contains the statistics of this rank's calls on a communicator since it was made.
type Stats struct {
	Name  string // of the communicator
	Calls []CallStats
}

// CallStats contains the statistics of this rank's calls of one kind. All forms of a collective count as one kind:
// AllReduceCoalesced, StartAllReduce and a Persistent count as AllReduce, and AllGatherV as AllGather. SendRecv counts
// as a Send and a Recv, each with the time of both. Dup, StartDup and Sub count as Split; "Sparse" is the calls of
// package sparse, without their bytes.
type CallStats struct {
	Call  string // "AllReduce"
	Count int64  // calls that have begun

	// Bytes is the length of the messages in bytes, of all parts if a message has parts: n ranks that gather 1000 float32
	// each have 4000 n. It is not the number of bytes sent over links.
	Bytes int64

	// Time is the time that the rank spent in these calls, and in Wait and Test for them; for device calls it is the time
	// until they are in their streams. Calls of 32 KiB or more, waits, and the first 32 calls of all are timed; of smaller
	// calls one in 251 is timed and stands for all, because reading the clock would slow them down.
	Time time.Duration

	// Waiting is the part of Time in which the rank slept while it waited for another rank, or had yielded its core 32
	// times without progress. Waits of less than some tens of microseconds do not count, nor do waits that are not over or
	// have failed.
	Waiting time.Duration
}

// Stats returns the statistics of this rank's calls on c. Any goroutine may call it, while calls run and after Close.
// It does not communicate with other ranks.
func (c *Comm) Stats() Stats {
	s := Stats{Name: c.Name()}
	c.inner().Tally.Stats(func(name string, calls, bytes int64, taken, waited time.Duration) {
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
