//go:build linux

package launch

import (
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// initGrace is the time from a failure until all ranks have reported that they take part in epochs: some may just have
// been started.
const initGrace = 10 * time.Second

// left reports whether a process has ended with 0 and has not closed its world.
func (r *rankState) left() bool {
	return r.ended && !r.Closed && !r.Stopped && r.Code == 0 && r.Signal == 0
}

// countExited makes failures of the ranks that have ended with 0 before any other rank took part in epochs, and that
// these wait for.
func (s *supervisor) countExited() {
	for _, r := range s.ranks {
		if s.renews() && r.left() && r.controlClosed {
			s.endOnFailure(r)
		}
	}
}

// withdrawGrace is the time from the end of a rank's connection to that of the rank, for one that ends.
const withdrawGrace = 100 * time.Millisecond

// onWithdrawn notes that a rank which lives has ended its connection: its Renew was given up. It is a member of no
// epoch, and the others wait for its end.
func (s *supervisor) onWithdrawn(r *rankState) {
	if r.ended || r.counted || s.cause.kind != noCause {
		return
	}
	const text = "lives, and waits for no other epoch"
	s.job.Trace("rank %d (pid %d) %s", r.Rank, r.PID, text)
	s.act(s.members.Withdrew(r.Rank))
	s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.Exited, Rank: r.Rank, PID: r.PID, Lost: true,
		Epoch: r.epoch, Text: text + s.onHost(r.host)}})
}
