package launch

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

const (
	gatherWaits = 2 * time.Second  // from the first report of a cause, for others to come
	repeatWaits = 10 * time.Second // until a cause is told again, twice as long each time
	reportAge   = 20 * time.Second // of the latest report of a rank that still waits
)

// stallKey is a cause that ranks wait for.
type stallKey struct {
	last int
	is   string // "" for a rank
}

// stall is one such cause.
type stall struct {
	waits map[*rankState]reported // that wait for it
	last  time.Time               // when a rank reported
	every time.Duration           // from the line that comes next to the one after
}

// reported is what a rank has told last.
type reported struct {
	*job.Wait
	since time.Time // it has waited
	at    time.Time // it told
}

// isWaiting notes that a rank waits. All that wait for one cause are told of in one line.
func (s *supervisor) isWaiting(m *rankState, w *job.Wait) {
	key := stallKey{last: w.Last}
	if w.Last < 0 {
		key.is = w.Is
	}
	for _, other := range s.stalls {
		delete(other.waits, m)
	}
	if w.For == 0 { // it has got on
		return
	}
	now := time.Now()
	g := s.stalls[key]
	if g == nil || now.Sub(g.last) > reportAge { // else it goes on
		g = &stall{waits: make(map[*rankState]reported), every: repeatWaits}
		s.stalls[key] = g
		s.after(gatherWaits, func() { s.tellStall(key, g) })
	}
	g.waits[m], g.last = reported{w, now.Add(-w.For), now}, now
}

// tellStall says which ranks wait for one cause, and does so again later.
func (s *supervisor) tellStall(key stallKey, g *stall) {
	if s.stalls[key] != g {
		return
	}
	for m, w := range g.waits {
		if m.ended || time.Since(w.at) > reportAge {
			delete(g.waits, m)
		}
	}
	if len(g.waits) == 0 || s.cause.kind != none {
		delete(s.stalls, key)
		return
	}
	s.job.Screen.Err.Printf("treerun: %s", g.text(s.ranks))
	s.after(g.every, func() { s.tellStall(key, g) })
	g.every *= 2
}

// text says who waits, and why.
func (g *stall) text(all []*rankState) string {
	var who []int
	var any reported
	calls, common, since := make(map[string]int), "", time.Time{}
	for _, m := range all { // by rank, so that the same waits give the same text
		w, is := g.waits[m]
		if !is {
			continue
		}
		who, any = append(who, m.Rank), w
		if calls[w.In]++; calls[w.In] > calls[common] {
			common = w.In
		}
		if w.since.After(since) {
			since = w.since
		}
	}
	ranks := fmt.Sprintf("%d of %d ranks have", len(who), len(all))
	if len(who) < len(all)-1 {
		ranks = fmt.Sprintf("%d of %d ranks (%s) have", len(who), len(all), topo.RankList(who))
	}
	why := ": " + any.Is
	switch {
	case len(who) == 1:
		ranks, why = fmt.Sprintf("rank %d has", who[0]), ": "+any.Text
	case any.Last >= 0:
		why = fmt.Sprintf(" for rank %d, which %s", any.Last, any.Is)
	}
	if n := len(calls) - 1; n > 0 {
		common += " and " + numbers.Count(n, "other call")
	}
	return fmt.Sprintf("%s waited %.0f s in %s%s", ranks, time.Since(since).Seconds(), common, why)
}
