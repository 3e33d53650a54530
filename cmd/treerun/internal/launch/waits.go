package launch

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

const (
	gatherWaits  = 2 * time.Second  // from the first report of a cause, for others to come
	repeatWaits  = 10 * time.Second // until a cause is reported again, twice as long each time
	maxReportAge = 20 * time.Second // of the latest report of a rank that still waits
)

// stall is a cause that ranks wait for.
type stall struct {
	last     time.Time     // when a rank last reported the cause
	interval time.Duration // the time from the next line about the cause to the one after it
}

// waitReport is the last report of a rank; the zero value is none.
type waitReport struct {
	*job.Wait
	since    time.Time // the rank has waited since then
	received time.Time // when it arrived
}

// cause returns a key of the cause of a wait: the last rank of the chain of waits, or the description of the wait.
func (w *waitReport) cause() string {
	if w.Last >= 0 {
		return strconv.Itoa(w.Last)
	}
	return w.Is
}

// onWait notes that a rank waits. All that wait for one cause are reported in one line.
func (s *supervisor) onWait(r *rankState, w *job.Wait) {
	now := time.Now()
	if s.renews() && r.epoch == s.members.Epoch() && w.Last >= 0 && w.Last < len(s.roster) {
		of := *w
		w, of.Last = &of, s.roster[w.Last] // by the number that tags have
	}
	r.wait = waitReport{w, now.Add(-w.For), now}
	if w.For == 0 { // it has made progress
		r.wait = waitReport{}
		return
	}
	cause := r.wait.cause()
	st := s.stalls[cause]
	if st == nil || now.Sub(st.last) > maxReportAge { // else the stall continues
		st = &stall{interval: repeatWaits}
		s.stalls[cause] = st
		s.after(gatherWaits, func() { s.reportStall(cause, st) })
	}
	st.last = now
	// Behind a loss the chains of waits change, and limitUnreported limits the waits for the next epoch.
	if s.renews() && r.epoch == s.members.Epoch() && len(s.members.Awaited()) == 0 && w.Last >= 0 &&
		w.Last < len(s.ranks) {
		s.limit([]int{w.Last}, w.For, w.For >= w.Least)
	}
}

// reportStall reports the ranks that wait for one cause, and again later.
func (s *supervisor) reportStall(cause string, st *stall) {
	if s.stalls[cause] != st {
		return
	}
	waiting := slices.DeleteFunc(slices.Clone(s.ranks), func(r *rankState) bool {
		return r.ended || r.wait.Wait == nil || r.wait.cause() != cause ||
			time.Since(r.wait.received) > maxReportAge
	})
	if len(waiting) == 0 || s.cause.kind != noCause {
		delete(s.stalls, cause)
		return
	}
	all := len(s.ranks)
	if s.renews() {
		all = len(s.roster)
	}
	text := stallText(waiting, all)
	if last := waiting[len(waiting)-1].wait.Last; last < 0 {
		s.job.Screen.Err.Printf("treerun: %s", text)
	} else {
		s.look(nil, func(j *inspect.Job) {
			if line := j.LineOf(last); line != "" {
				text += ", in " + line
			}
			s.job.Screen.Err.Printf("treerun: %s", text)
		})
	}
	s.after(st.interval, func() { s.reportStall(cause, st) })
	st.interval *= 2
}

// stallText describes which of all ranks wait, and why.
func stallText(waiting []*rankState, all int) string {
	var waiters []int
	calls, common, since := make(map[string]int), "", time.Time{}
	for _, r := range waiting {
		waiters = append(waiters, r.Rank)
		if calls[r.wait.In]++; calls[r.wait.In] > calls[common] {
			common = r.wait.In
		}
		if r.wait.since.After(since) {
			since = r.wait.since
		}
	}
	last := waiting[len(waiting)-1].wait
	ranks := fmt.Sprintf("%d of %d ranks have", len(waiters), all)
	if len(waiters) < all-1 {
		ranks = fmt.Sprintf("%d of %d ranks (%s) have", len(waiters), all, topo.RankList(waiters))
	}
	why := ": " + last.Is
	switch {
	case len(waiters) == 1:
		ranks, why = fmt.Sprintf("rank %d has", waiters[0]), ": "+last.Text
	case last.Last >= 0:
		why = fmt.Sprintf(" for rank %d, which %s", last.Last, last.Is)
	}
	if n := len(calls) - 1; n > 0 {
		common += " and " + numbers.Count(n, "other call")
	}
	waited := fmt.Sprintf("%.0f s", time.Since(since).Seconds())
	if waited == "0 s" {
		waited = seconds(time.Since(since))
	}
	return fmt.Sprintf("%s waited %s in %s%s", ranks, waited, common, why)
}
