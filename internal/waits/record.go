package waits

import (
	"strings"
	"time"

	"github.com/treerun/treerun/internal/record"
)

// longWait is the least time of a wait that is recorded. Waits in calls are published when they have lasted about that
// long, others at once.
const longWait = 15 * time.Millisecond

// maxRecorded is the number of ranks of one wait that are recorded.
const maxRecorded = 4

// recordWait records the published wait, as one event for each of the first ranks that it is for: with the flag
// record.Open where it lasts, else at its end. The caller holds mu.
func recordWait(w *Wait, flags uint8) {
	to := w.job.Record
	took := time.Since(w.now.since)
	if to == nil || len(w.now.blockers) == 0 || took < longWait {
		return
	}
	e := record.Event{Kind: record.Wait, Flags: flags, Comm: to.Name(w.Scope.Name), Label: to.Name(nameOf(w.now.in)),
		Start: to.Time(w.now.since)}
	if flags&record.Open == 0 {
		e.Took = took
	}
	last := -2
	for _, l := range w.now.blockers[:min(len(w.now.blockers), maxRecorded)] {
		if e.Peer = originOf(w, l.Rank); e.Peer != last {
			to.Put(&e)
			last = e.Peer
		}
	}
}

// nameOf returns the name of a call without what differs from one call to the next.
func nameOf(in string) string {
	name, _, _ := strings.Cut(in, " #")
	name, _, _ = strings.Cut(name, " (")
	return strings.TrimSuffix(strings.Fields(name + " call")[0], ":")
}

// originOf returns the launcher's number of a rank of the scope, -1 if it is not known.
func originOf(w *Wait, rank int) int {
	r := w.Scope.InJob(rank)
	switch {
	case r < 0 || r >= w.job.Size:
		return -1
	case w.job.Origins != nil:
		return w.job.Origins[r]
	}
	return r
}
