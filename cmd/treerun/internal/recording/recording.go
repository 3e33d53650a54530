// Package recording has the recording of a job, for the files that show it: the recordings of the processes of its
// ranks, as their hosts have read them, and the clocks of these hosts. The launcher collects it (launch.Job.Recorded).
//
// It also writes a recording as a timeline: a group of rows for each host, a row for each process of a rank, and arrows
// from the rank that was waited for to the ranks that waited. Perfetto shows it (ui.perfetto.dev), also the JSON form,
// which Chrome has defined.
//
// All times that methods return are nanoseconds since the beginning of the job, on the launcher's clock.
package recording

import (
	"slices"
	"time"

	"github.com/treerun/treerun/internal/record"
)

// Job is the recording of a job.
type Job struct {
	ID, Program string
	Args        []string // from argv[0] on
	Start       time.Time
	Clock       int64 // record.Clock of the launcher at Start
	Took        time.Duration
	Code        int       // the exit code
	Cause       string    // the block about the failure of the job; "": it has not failed
	Hosts       []Host    // in the job's order
	Processes   []Process // by rank, then by attempt
}

// Host is a host of a job.
type Host struct {
	Name   string
	Clocks []Clock // in the order of At; those of the launcher's own host are empty
}

// Clock is an estimate of the difference of two clocks.
type Clock struct {
	At     int64 // the launcher's clock
	Offset int64 // the host's clock is ahead by so much
	Error  int64 // the most by which Offset is wrong: half of the round trip
}

// Process is one process of a rank.
type Process struct {
	Rank, Attempt, PID int           // Attempt is the number of processes that the rank had before
	Host               int           // index in Hosts
	Ended              time.Duration // since the beginning of the job
	Outcome            string        // how it has ended, for people: "killed by SIGKILL"
	Failed             bool
	Why                string // why there is no recording, or only a part; "": all of it is here
	record.Recording
}

// Live is the state of a job that runs.
type Live struct {
	ID       string
	Size     int   // ranks of the latest epoch
	Alive    []int // ranks that run
	Restarts int   // of ranks, each counted
	Ranks    []LiveRank
	Ended    []*record.Head // totals of processes that have ended
	Silent   []string       // hosts that have not answered
}

// LiveRank is the totals of a rank that runs.
type LiveRank struct {
	Rank int
	Host string
	*record.Head
}

// MaxEvents is the number of events of a job, up to which those of all processes are kept.
const MaxEvents = 1 << 20

// Places returns the number of events for which each of n ranks has room.
func Places(n int) int { return min(max(MaxEvents/n, 1<<10), 1<<16) }

// Time returns the time of an event of a process, or of its end.
func (j *Job) Time(p *Process, at int64) int64 {
	return at - j.Hosts[p.Host].offset(at) - j.Clock
}

// Open reports whether events[i], which is a wait, lasted until the end of the process: no later event has its end.
func (p *Process) Open(i int) bool {
	e := &p.Events[i]
	if e.Flags&record.Open == 0 {
		return false
	}
	return !slices.ContainsFunc(p.Events[i+1:], func(o record.Event) bool {
		return o.Kind == e.Kind && o.Start == e.Start && o.Comm == e.Comm && o.Peer == e.Peer
	})
}

// offset returns by how much the clock of h is ahead of the launcher's when it shows a time, between estimates in
// proportion.
func (h *Host) offset(at int64) int64 {
	if len(h.Clocks) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(h.Clocks, at, func(c Clock, at int64) int {
		if c.At+c.Offset < at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return h.Clocks[0].Offset
	}
	before := h.Clocks[i-1]
	if i == len(h.Clocks) {
		return before.Offset
	}
	after := h.Clocks[i]
	part := float64(at-before.At-before.Offset) / float64(after.At+after.Offset-before.At-before.Offset)
	return before.Offset + int64(part*float64(after.Offset-before.Offset))
}

// Error returns the most by which the times of h are wrong.
func (h *Host) Error() (most time.Duration) {
	for _, c := range h.Clocks {
		most = max(most, time.Duration(c.Error))
	}
	return most
}
