//go:build linux

package launch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/control"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// usable returns the hosts that ranks may be added on: those that have had some, and those that are being reached for
// added ones.
func (s *supervisor) usable() []*hostState {
	return slices.DeleteFunc(slices.Clone(s.hosts), func(h *hostState) bool {
		return h.lost && !(h.late && h.away) || len(h.Ranks) == 0
	})
}

// load returns the number of ranks of a host that live.
func (s *supervisor) load(h *hostState) (n int) {
	for _, r := range h.Ranks {
		if k := s.ranks[r]; k != nil && k.host == h && !k.ended && !k.past {
			n++
		}
	}
	return n
}

// checkRoom returns an error where the hosts of the list have too few slots for n ranks.
func (s *supervisor) checkRoom(n int) error {
	hosts, slots, free := s.usable(), 0, 0
	for _, h := range hosts {
		if h.Room == 0 {
			return nil
		}
		slots += h.Room
		free += max(0, h.Room-s.load(h))
	}
	for _, h := range s.idle {
		slots += h.Room
		free += h.Room
	}
	if added := n - s.members.Living(); added <= 0 || added <= free || s.job.Cores.Oversubscribe {
		return nil
	}
	return fmt.Errorf("%d ranks, but %s on %s (hint: start the job with more slots, as in HOST:SLOTS, or with "+
		"--oversubscribe)", n, numbers.Count(slots, "slot"), numbers.Count(len(hosts)+len(s.idle), "host"))
}

// hostForAdded returns the host for a rank that is added: the first one with a free slot, also one that had no rank so
// far. Where there is none, and where hosts have no number of slots, it is the one with the fewest ranks for its size:
// those that it began with less those that run.
func (s *supervisor) hostForAdded() *hostState {
	usable := s.usable()
	for _, h := range usable {
		if s.load(h) < h.Room {
			return h
		}
	}
	if len(s.idle) > 0 && len(s.hosts) < job.MaxRanks {
		h := &hostState{JobHost: s.idle[0], index: len(s.hosts), node: len(s.hosts), place: len(s.hosts),
			ready: new(wire.Ready), began: s.idle[0].Room, phase: done, lost: true, away: true, late: true}
		s.idle = s.idle[1:]
		s.hosts = append(s.hosts, h)
		s.tryNow(h)
		return h
	}
	return slices.MinFunc(usable, func(a, b *hostState) int { return s.load(a) - a.began - s.load(b) + b.began })
}

// startWaiting starts the ranks that have waited for their host.
func (s *supervisor) startWaiting(h *hostState) {
	for _, r := range h.waiting {
		s.spawn(r)
	}
	h.waiting = nil
}

// giveUpLate gives up a host that had no rank so far and cannot be reached, with the ranks that were to start there.
func (s *supervisor) giveUpLate(h *hostState, text string) {
	s.idle = append(s.idle, JobHost{Name: h.Name, Target: h.Target, Room: h.Room})
	h.away, h.Ranks = false, nil
	for _, r := range slices.Clone(h.waiting) {
		s.cancelWaiting(r, text)
	}
}

// cancelWaiting ends a rank whose host is still being reached; false for any other.
func (s *supervisor) cancelWaiting(r *rankState, why string) bool {
	i := slices.Index(r.host.waiting, r)
	if i >= 0 {
		r.host.waiting = slices.Delete(r.host.waiting, i, i+1)
		s.onUnstarted(r, &wire.Unstarted{Rank: r.Rank, Attempt: r.Attempt, Code: cmdline.ExitInternal, Text: why})
	}
	return i >= 0
}

// resize brings the job to n ranks.
func (s *supervisor) resize(n int) control.Answer {
	if s.cause.kind != noCause || s.draining {
		return control.Answer{Error: "it is ending"}
	}
	if len(s.usable()) == 0 {
		return control.Answer{Error: "none of its hosts is left"}
	}
	if err := s.checkRoom(n); err != nil {
		return control.Answer{Error: err.Error()}
	}
	orders, err := s.members.Resize(n)
	if err != nil {
		return control.Answer{Error: err.Error()}
	}
	s.apply(orders)
	text := cmp.Or(describe(orders), fmt.Sprintf("the job has %s", numbers.Count(n, "rank")))
	s.job.Screen.Err.Printf("treerun: resize to %s: %s", numbers.Count(n, "rank"), text)
	return control.Answer{Text: text}
}

// describe describes the ranks that orders add or remove.
func describe(orders []membership.Order) (text string) {
	var added, leaving []int
	for _, o := range orders {
		switch o := o.(type) {
		case membership.Start:
			added = append(added, o.Rank)
		case membership.Leave:
			leaving = append(leaving, o.Rank)
		}
	}
	if len(added) > 0 {
		text = fmt.Sprintf("starting %s (%s), to be taken in when the program leaves its epoch",
			numbers.Count(len(added), "rank"), topo.RankList(added))
	}
	if len(leaving) > 0 {
		slices.Sort(leaving)
		text = fmt.Sprintf("stopping %s (%s)", numbers.Count(len(leaving), "rank"), topo.RankList(leaving))
	}
	return text
}
