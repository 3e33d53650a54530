//go:build linux

package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// losses are the lost ranks of a job that went on.
type losses struct {
	count int
	code  int    // exit code of the first
	first []loss // at most maxRanks
	after int    // number of losses after the latest epoch began
	at    time.Time
}

// loss is one lost rank.
type loss struct {
	r    *rankState // nil once it has ended, and text says how
	how  string     // as it was known at first
	host string     // " on host" and its name, where the job has several
	text string
}

// add notes that a rank is lost.
func (l *losses) add(r *rankState, how, host string) {
	if l.count++; l.count == 1 {
		l.code = r.exitCode()
	}
	l.after++
	l.at = time.Now()
	if len(l.first) < maxRanks {
		l.first = append(l.first, loss{r: r, how: how, host: host})
	}
}

// settle notes what is known now of the ends of ranks. Nothing else of those that have ended is kept.
func (l *losses) settle() {
	for i := range l.first {
		k := &l.first[i]
		if k.r == nil {
			continue
		}
		how, host := k.how, k.host
		if k.r.Lost {
			host = "" // how names it
		}
		if k.r.ended {
			how = strings.TrimSuffix(k.r.outcome(), ",")
			if k.r.Hint != "" {
				how += " (" + k.r.Hint + ")"
			}
		}
		k.text = fmt.Sprintf("rank %d%s %s, %s after the start", k.r.Rank, host, how, inspect.Seconds(k.r.After))
		if k.r.ended {
			k.r = nil
		}
	}
}

// consequence describes the orders that follow the loss of a rank, and reports whether they end the job.
func (s *supervisor) consequence(r *rankState, orders []membership.Order) (next string, ends bool) {
	next = "the other ranks continue"
	if r.past {
		next = fmt.Sprintf("rank %d is not added", r.Rank)
	}
	for _, o := range orders {
		switch o := o.(type) {
		case membership.End:
			next, ends = "the job ends: "+o.Why, true
			used := func(r *rankState) bool { return r.renewable || r.Joined }
			if s.renews() && !slices.ContainsFunc(s.ranks, used) {
				next += "; no rank has used rank.Worlds, without which none joins the others again (hint: --on-failure " +
					"restart takes any program)"
			}
		case membership.RestartAll:
			next = fmt.Sprintf("all ranks start again (restart %d of %d)", s.members.Restarts(), s.job.Lives.MaxRestarts)
		case membership.Start:
			next = fmt.Sprintf("it starts again (restart %d of %d)", s.members.Restarts(), s.job.Lives.MaxRestarts)
		}
	}
	return next, ends
}

// printLoss prints a line about a lost rank and what follows. The ranks of a lost host have one line together, and that
// of one that could not be started may be the error of the job.
func (s *supervisor) printLoss(r *rankState, how, next string, ends bool) {
	if r.Lost {
		s.lostNext = next
		return
	}
	if text := r.Unstarted; text != "" {
		if text += "; " + next; len(s.hosts) > 1 && !strings.Contains(text, " host "+r.host.Name) {
			text = fmt.Sprintf("host %s: %s", r.host.Name, text)
		}
		if ends {
			s.begin(cause{kind: byError, err: cmdline.Errorf(r.Code, "%s", text)})
			return
		}
		s.notify(text, nil)
		return
	}
	if r.ended && r.Hint != "" {
		how += ": " + r.Hint
	}
	s.notify(fmt.Sprintf("rank %d%s was lost %s after the start: it %s; %s", r.Rank, s.onHost(r.host),
		inspect.Seconds(r.After), how, next), r)
}

// printLostHost prints a line about a host that was lost with ranks that had not ended.
func (s *supervisor) printLostHost(h *hostState, why string, ranks []int) {
	if s.lostNext == "" {
		return // the job ends with it, or no rank is lost
	}
	these, start := "these", "they start"
	if len(ranks) == 1 {
		these, start = "this one", "it starts"
	}
	switch {
	case h.spare == nil:
	case s.restarting:
		s.lostNext += fmt.Sprintf(", %s on host %s", these, h.spare.Name)
	default:
		s.lostNext = fmt.Sprintf("%s again on host %s (restart %d of %d)", start, h.spare.Name, s.members.Restarts(),
			s.job.Lives.MaxRestarts)
	}
	s.notify(fmt.Sprintf("host %s was lost %s after the start, with %s (%s): %s; %s", h.Name,
		inspect.Seconds(time.Since(s.start)), numbers.Count(len(ranks), "rank"), topo.RankList(ranks), why, s.lostNext), nil)
	s.lostNext = ""
}

// reportUnused names the ranks that were added, and that no epoch has taken in.
func (s *supervisor) reportUnused() {
	var unused []int
	for _, r := range s.ranks {
		if r.joining && r.added {
			unused = append(unused, r.Rank)
		}
	}
	if len(unused) > 0 {
		s.job.Screen.Err.Printf("treerun: %s (%s) took no part: the program has not left the epoch of treerun "+
			"resize (hint: it looks at World.Changed)", numbers.Count(len(unused), "rank"), topo.RankList(unused))
	}
}

// reportLosses prints the last line of a job that lost ranks and has ended well.
func (s *supervisor) reportLosses() {
	if s.losses.count == 0 {
		return
	}
	s.losses.settle()
	var ended []int
	for _, r := range s.ranks {
		if r.Closed || !s.renews() {
			ended = append(ended, r.Rank)
		}
	}
	text := ""
	for _, l := range s.losses.first {
		text += "\n    " + l.text
	}
	if more := s.losses.count - len(s.losses.first); more > 0 {
		text += fmt.Sprintf("\n    and %d more", more)
	}
	s.job.Screen.Err.Printf("treerun: the job began with %s and has ended well with %d (%s), after the loss of:%s",
		numbers.Count(s.job.Size, "rank"), len(ended), topo.RankList(ended), text)
}
