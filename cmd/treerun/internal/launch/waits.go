package launch

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

const (
	gatherWaits = 2 * time.Second  // from the first report of a cause, for others to come
	repeatWaits = 10 * time.Second // until a cause is reported again, twice as long each time
	reportAge   = 20 * time.Second // of the latest report of a rank that still waits
)

// stall is a cause that ranks wait for.
type stall struct {
	last  time.Time     // when a rank reported
	every time.Duration // from the line that comes next to the one after
}

// reported is the last report of a rank; the zero value is none.
type reported struct {
	*job.Wait
	since time.Time // it has waited
	at    time.Time // it reported
}

// cause returns a key of the cause of a wait: the last rank of the chain of waits, or the description of the wait.
func (w *reported) cause() string {
	if w.Last >= 0 {
		return strconv.Itoa(w.Last)
	}
	return w.Is
}

// isWaiting notes that a rank waits. All that wait for one cause are reported in one line.
func (s *supervisor) isWaiting(m *rankState, w *job.Wait) {
	now := time.Now()
	m.wait = reported{w, now.Add(-w.For), now}
	if w.For == 0 { // it has made progress
		m.wait = reported{}
		return
	}
	cause := m.wait.cause()
	g := s.stalls[cause]
	if g == nil || now.Sub(g.last) > reportAge { // else the stall continues
		g = &stall{every: repeatWaits}
		s.stalls[cause] = g
		s.after(gatherWaits, func() { s.reportStall(cause, g) })
	}
	g.last = now
}

// reportStall reports the ranks that wait for one cause, and again later.
func (s *supervisor) reportStall(cause string, g *stall) {
	if s.stalls[cause] != g {
		return
	}
	waiting := slices.DeleteFunc(slices.Clone(s.ranks), func(m *rankState) bool {
		return m.ended || m.wait.Wait == nil || m.wait.cause() != cause || time.Since(m.wait.at) > reportAge
	})
	if len(waiting) == 0 || s.cause.kind != none {
		delete(s.stalls, cause)
		return
	}
	s.job.Screen.Err.Printf("treerun: %s", stallText(waiting, len(s.ranks)))
	s.after(g.every, func() { s.reportStall(cause, g) })
	g.every *= 2
}

// stallText describes which of all ranks wait, and why.
func stallText(waiting []*rankState, all int) string {
	var who []int
	calls, common, since := make(map[string]int), "", time.Time{}
	for _, m := range waiting {
		who = append(who, m.Rank)
		if calls[m.wait.In]++; calls[m.wait.In] > calls[common] {
			common = m.wait.In
		}
		if m.wait.since.After(since) {
			since = m.wait.since
		}
	}
	last := waiting[len(waiting)-1].wait
	ranks := fmt.Sprintf("%d of %d ranks have", len(who), all)
	if len(who) < all-1 {
		ranks = fmt.Sprintf("%d of %d ranks (%s) have", len(who), all, topo.RankList(who))
	}
	why := ": " + last.Is
	switch {
	case len(who) == 1:
		ranks, why = fmt.Sprintf("rank %d has", who[0]), ": "+last.Text
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
