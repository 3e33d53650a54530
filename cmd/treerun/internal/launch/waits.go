//go:build linux

package launch

import (
	"github.com/treerun/treerun/internal/job"
)

// onWait limits a wait that a rank of a job reports which continues without the rank that it waits for. Behind a loss
// the chains of waits change, and limitUnreported limits the waits for the next epoch.
func (s *supervisor) onWait(r *rankState, w *job.Wait) {
	if !s.renews() || r.epoch != s.members.Epoch() || len(s.members.Awaited()) > 0 || w.Last < 0 ||
		w.Last >= len(s.roster) || w.For == 0 {
		return
	}
	if last := s.roster[w.Last]; last < len(s.ranks) { // by the number that tags have
		s.limit([]int{last}, w.For, w.For >= w.Least)
	}
}
