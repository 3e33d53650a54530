//go:build linux

package inspect

import (
	"slices"
	"time"

	"github.com/treerun/treerun/internal/waits"
)

// A wait is suspect after leastSuspect or, where that is longer, lateBy times the predicted time of its call. A rank
// may keep others waiting by its work for LeastWork or, where that is longer, gaps times the longest time between two
// of its calls so far.
const (
	leastSuspect = time.Second
	lateBy       = 20
	LeastWork    = 10 * time.Second
	gaps         = 5
)

// isSuspect reports whether a wait has lasted too long to be a part of its call. now is Unix time in nanoseconds.
func isSuspect(w *waits.Waiting, now int64) bool {
	return w.GaveUp == 0 && now-w.Since >= int64(suspectAfter(w))
}

func suspectAfter(w *waits.Waiting) time.Duration {
	return max(leastSuspect, lateBy*time.Duration(min(w.Usual, int64(time.Hour))))
}

// Suspicion returns the time that ranks may wait before v, the verdict on them, is worth a line. sure reports whether
// no work of a rank can be the reason for the wait.
func (j *Job) Suspicion(v *waits.Verdict) (after time.Duration, sure bool) {
	sure = v.Circle != "" || len(v.AtFault) > 0
	for _, rank := range v.AtFault {
		r := j.rank(rank)
		sure = sure && r != nil && (r.Process.State.Stopped() || j.unread(r))
		if r != nil {
			after = max(after, gaps*r.Gap)
		}
	}
	if !sure {
		return max(LeastWork, after), false
	}
	after = leastSuspect
	for i := range j.Ranks {
		for k := range j.Ranks[i].Waits {
			after = max(after, suspectAfter(&j.Ranks[i].Waits[k]))
		}
	}
	return after, true
}

// Debugged reports whether one of these ranks is in a debugger: a user has the others wait for it.
func (j *Job) Debugged(ranks []int) bool {
	return slices.ContainsFunc(ranks, func(rank int) bool {
		r := j.rank(rank)
		return r != nil && r.inDebugger()
	})
}

func (r *Rank) inDebugger() bool { return r.Debugged || r.Process.State.Code == 't' }

// unread reports whether a rank waits for a reader of treerun's own output.
func (j *Job) unread(r *Rank) bool {
	return j.Unread != "" && slices.Contains([]string{"write", "writev"}, r.Process.Call)
}

// rank returns the entry of a rank, nil if it was not seen.
func (j *Job) rank(rank int) *Rank {
	i := slices.IndexFunc(j.Ranks, func(r Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil
	}
	return &j.Ranks[i]
}
