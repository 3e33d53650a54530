package waits

import (
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/record"
)

// longWait is the least time of a wait that is recorded. Waits in calls are published when they have lasted about that
// long, others at once.
const longWait = 15 * time.Millisecond

// maxRecorded is the number of ranks of one wait that are recorded.
const maxRecorded = 4

// recorded is a rank that a wait is for, as it was recorded when that began.
type recorded struct {
	peer  int // the launcher's number; -1: not known
	since time.Time
}

// recordOpen records the published wait, as one event for each of the first ranks that it is for. A rank that it was
// for before, and is not any more, gets its end. The caller holds mu.
func recordOpen(w *Wait) {
	if w.job.Record == nil || time.Since(w.now.since) < longWait {
		return
	}
	peers := recordedPeers(w)
	since := w.now.since
	if len(w.recorded) > 0 {
		since = time.Now()
	}
	w.recorded = slices.DeleteFunc(w.recorded, func(r recorded) bool {
		if slices.Contains(peers, r.peer) {
			return false
		}
		put(w, r, 0)
		return true
	})
	for _, peer := range peers {
		r := recorded{peer, since}
		if !slices.ContainsFunc(w.recorded, func(o recorded) bool { return o.peer == peer }) {
			put(w, r, record.Open)
			w.recorded = append(w.recorded, r)
		}
	}
}

// recordEnd records the end of the published wait, with these flags. The caller holds mu.
func recordEnd(w *Wait, flags uint8) {
	if w.job.Record == nil || w.now.in == "" {
		return
	}
	if len(w.recorded) == 0 && time.Since(w.now.since) >= longWait { // it was short when it was published
		for _, peer := range recordedPeers(w) {
			w.recorded = append(w.recorded, recorded{peer, w.now.since})
		}
	}
	for _, r := range w.recorded {
		put(w, r, flags)
	}
	w.recorded = w.recorded[:0]
}

// recordedPeers returns the first ranks that the published wait is for.
func recordedPeers(w *Wait) (peers []int) {
	for _, l := range w.now.blockers[:min(len(w.now.blockers), maxRecorded)] {
		if peer := originOf(w, l.Rank); !slices.Contains(peers, peer) {
			peers = append(peers, peer)
		}
	}
	return peers
}

// put records a wait for one rank: with the flag record.Open where it lasts, else at its end.
func put(w *Wait, r recorded, flags uint8) {
	to := w.job.Record
	e := record.Event{Kind: record.Wait, Flags: flags, Comm: to.Name(w.Scope.Name), Label: to.Name(nameOf(w.now.in)),
		Peer: r.peer, Start: to.Time(r.since)}
	if flags&record.Open == 0 {
		e.Took = time.Since(r.since)
	}
	to.Put(&e)
}

// nameOf returns the name of a call without what differs from one call to the next.
func nameOf(in string) string {
	name, _, _ := strings.Cut(in, " #")
	name, _, _ = strings.Cut(name, " (")
	return strings.TrimSuffix(strings.Fields(name + " call")[0], ":")
}

// originOf returns the launcher's number of a rank of the scope, -1 if it is not known.
func originOf(w *Wait, rank int) int {
	r := w.Scope.inJob(rank)
	switch {
	case r < 0 || r >= w.job.Size:
		return -1
	case w.job.Origins != nil:
		return w.job.Origins[r]
	}
	return r
}
