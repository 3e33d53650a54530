//go:build linux

package launch

import (
	"fmt"
	"slices"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

const (
	// stoppedLimit is how long a stopped rank may keep others waiting in a job that continues after the loss of a rank.
	stoppedLimit = 10 * time.Second

	// formNote is the time for which an epoch may wait for ranks before a line names them.
	formNote = 5 * time.Second

	limitInterval = 100 * time.Millisecond // between two checks of the waits that no rank reports
)

// limit ends ranks that have kept others waiting for too long, in a job that continues without them or starts again:
// for longer than --stall-timeout or, where they are stopped, for longer than stoppedLimit. Where the ranks may
// themselves wait for another one, or are measuring, known is false, and only stopped ones end.
func (s *supervisor) limit(ranks []int, waited time.Duration, known bool) {
	limits := s.stallTimeout > 0 && waited >= s.stallTimeout
	if !limits && waited < stoppedLimit || len(s.job.Debug) > 0 {
		return
	}
	for _, rank := range ranks {
		r := s.ranks[rank]
		k := &wire.Kill{Rank: rank, Attempt: r.Attempt, IfStopped: !limits || !known,
			Why: fmt.Sprintf("treerun ends it: others have waited %s for it", inspect.Seconds(waited))}
		if limits {
			k.Why += fmt.Sprintf(", --stall-timeout is %s", s.stallTimeout)
		}
		s.orderTo(r.host, k)
	}
}

// unreported is a wait for a process that no rank reports, since it is in no call of the epoch. The zero value is none.
type unreported struct {
	what  string
	epoch int
	since time.Time
}

// limitUnreported limits such waits, again and again.
func (s *supervisor) limitUnreported() {
	what, ranks, known := s.unreported()
	switch {
	case what != renewing:
		s.forming, s.formNoted = time.Time{}, false
	case s.forming.IsZero():
		s.forming = time.Now()
	case !s.formNoted && time.Since(s.forming) > formNote && s.cause.kind == noCause:
		s.formNoted = true
		s.notify(fmt.Sprintf("epoch %d has waited %s for %s (%s) to renew", s.members.Epoch()+1,
			inspect.Seconds(time.Since(s.forming)), numbers.Count(len(ranks), "rank"), topo.RankList(ranks)), nil)
	}
	for _, r := range s.ranks {
		w := unreported{what, s.members.Epoch(), r.unreported.since}
		switch {
		case !slices.Contains(ranks, r.Rank):
			w = unreported{}
		case w != r.unreported:
			w.since = time.Now()
		case s.cause.kind == noCause:
			s.limit([]int{r.Rank}, time.Since(w.since), known)
		}
		r.unreported = w
	}
	s.afterInAttempt(limitInterval, s.limitUnreported)
}

// renewing is what the next epoch waits for.
const renewing = "renew"

// unreported returns the ranks that are waited for: to renew; to join; or at the end, to close, and to exit.
func (s *supervisor) unreported() (what string, ranks []int, known bool) {
	if ranks = s.members.Awaited(); len(ranks) > 0 {
		return renewing, ranks, true
	}
	var open, running []int
	joining := false
	for _, rank := range s.roster {
		r := s.ranks[rank]
		if !r.Joined && !r.ended {
			ranks = append(ranks, rank)
			joining = joining || s.renews() && (r.renewable || s.members.Epoch() > 0)
		}
		if !r.Closed && !r.ended {
			open = append(open, rank)
		}
		if !r.ended {
			running = append(running, rank)
		}
	}
	switch {
	case joining:
		absent := slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return s.ranks[rank].renewable })
		if len(absent) > 0 {
			return "start", absent, true
		}
		return "join", ranks, false
	case len(open) > 0 && len(open) < len(s.roster):
		return "close", open, false
	case len(running) > 0 && len(running) < len(s.roster):
		return "exit", running, false
	}
	return "", nil, false
}
