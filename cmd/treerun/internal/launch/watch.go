//go:build linux

package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/waits"
)

// watch is the hang watch. Hosts report suspect waits; the supervisor looks at all ranks, and prints the verdict once
// ranks have waited too long for it. The watch ends nothing: limits do.
type watch struct {
	since   map[*hostState]time.Time // the beginning of the longest suspect wait of each host that has one
	looking bool                     // a look is under way, or will be
	pause   time.Duration            // from the last look to the next one
	last    waits.Verdict            // of the last look
	printed *printed                 // the verdict of the latest line, nil once the wait is over
	unread  bool                     // it was printed that nothing reads the output
}

// printed is a verdict that was printed.
type printed struct {
	waits.Verdict
	seen  time.Time // by the look
	began time.Time // the wait
}

const (
	outputEvery  = time.Second
	confirmAfter = 250 * time.Millisecond // from a verdict that no work explains to the look that confirms it
	leastPause   = time.Second            // between two other looks, twice as long each time
	longestPause = 8 * time.Second

	// lookCost is the least number of times that a look must have taken before the next one: the watch takes 1 % of a
	// core.
	lookCost = 100
)

// onSuspect notes the longest suspect wait of a host.
func (s *supervisor) onSuspect(h *hostState, b *wire.Suspect) {
	if s.watch.since == nil {
		s.watch.since = make(map[*hostState]time.Time)
	}
	delete(s.watch.since, h)
	if b.For > 0 {
		s.watch.since[h] = time.Now().Add(-b.For)
	}
	s.suspect()
}

// suspect acts on suspect waits.
func (s *supervisor) suspect() {
	w, longest := &s.watch, time.Time{}
	for h, since := range w.since {
		if h.lost || h.phase != started {
			delete(w.since, h)
		} else if longest.IsZero() || since.Before(longest) {
			longest = since
		}
	}
	if t := w.printed; t != nil && (longest.IsZero() || longest.After(t.seen)) {
		w.printed = nil
		s.printOver(t)
	}
	if longest.IsZero() {
		w.pause = 0
		return
	}
	if w.printed == nil && !w.looking && !s.ending() {
		w.looking = true
		s.look(&wire.Look{Brief: true}, s.judge)
	}
}

// ending reports whether ranks are about to end, or to learn of a loss: the reason for waits is known then.
func (s *supervisor) ending() bool {
	return s.cause.kind != noCause || s.restarting || s.stopped || s.draining || len(s.members.Awaited()) > 0
}

// judge prints the verdict on a job in which waits are suspect, if it is time for that.
func (s *supervisor) judge(j *inspect.Job) {
	w, v := &s.watch, inspect.Judge(j)
	began := time.Unix(0, v.Since)
	if began.Before(s.lastContinue) {
		began = s.lastContinue
	}
	waited := time.Unix(0, j.Seen).Sub(began)
	after, sure := j.Suspicion(&v)
	moved := time.Duration(v.Since - w.last.Since) // clocks of hosts are compared to about the time of a message
	same := moved.Abs() < confirmAfter && v.Circle == w.last.Circle && slices.Equal(v.AtFault, w.last.AtFault)
	w.last = v
	w.pause = min(max(2*w.pause, leastPause), longestPause)
	next := max(w.pause, lookCost*j.Took)
	held := s.ending() || s.lostAny(v.AtFault) || j.Debugged(v.AtFault)
	switch late := v.Waiting > 0 && waited >= after && !held; {
	case late && (same || !sure):
		w.printed, w.looking = &printed{v, time.Unix(0, j.Seen), began}, false
		s.printVerdict(j, &v)
		s.suspect() // it may be over
		return
	case late:
		next = confirmAfter
	case v.Waiting > 0 && after > waited:
		next = max(min(w.pause, after-waited), lookCost*j.Took)
	}
	s.after(next, func() {
		w.looking = false
		s.suspect()
	})
}

// lostAny reports whether one of these ranks has ended: a line about that comes.
func (s *supervisor) lostAny(ranks []int) bool {
	return slices.ContainsFunc(ranks, func(r int) bool { return r >= len(s.ranks) || s.ranks[r].ended })
}

// printVerdict prints why ranks wait.
func (s *supervisor) printVerdict(j *inspect.Job, v *waits.Verdict) {
	lines := []string{"treerun: " + j.Text(v)}
	for _, rank := range v.AtFault[:min(len(v.AtFault), 3)] {
		if callers := j.CallersOf(rank); len(callers) > 0 {
			lines = append(lines, fmt.Sprintf("treerun: rank %d: called by %s", rank, strings.Join(callers, ", by ")))
		}
	}
	s.job.Screen.Err.Printf("%s", strings.Join(lines, "\n"))
}

// printOver prints that ranks wait no longer, unless the reason is that others have ended.
func (s *supervisor) printOver(t *printed) {
	if s.ending() || s.lostAny(t.AtFault) {
		return
	}
	s.job.Screen.Err.Printf("treerun: %s continues after %s", t.Call, inspect.Seconds(time.Since(t.began)))
}

// watchOutput prints once that treerun's output has not been read for long, where ranks that write wait for that, and
// none waits for another.
func (s *supervisor) watchOutput() {
	if s.draining || s.watch.unread {
		return
	}
	if s.job.Screen.Out.Blocked() >= inspect.LeastWork {
		s.look(&wire.Look{Brief: true}, func(j *inspect.Job) {
			v := inspect.Judge(j)
			if j.Unread != "" && v.Waiting == 0 && !s.watch.unread && !s.ending() {
				s.watch.unread = true
				s.job.Screen.Err.Printf("treerun: %s", j.Text(&v))
			}
		})
	}
	s.after(outputEvery, s.watchOutput)
}
