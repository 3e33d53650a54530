package host

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/guard"
)

const (
	guardPause = 20 * time.Millisecond // before another guard is started
	maxGuards  = 100                   // of a job: somebody does not want one
)

// startGuard starts the guard of the job, and another one when it has ended before us:
// who kills first the guard and then this process shall leave nothing behind. Both at
// once leave what ranks have started, but not the ranks.
func (h *Host) startGuard() {
	h.guards++
	g, err := guard.Start(h.job.File.JobID, h.ranks, h.cfg.GuardTimeout)
	if err != nil {
		h.cfg.Trace("what ranks start will outlive a SIGKILL of this process: %v", err)
		return
	}
	h.guard = g
	h.k.Children(g.PID(), func(unix.WaitStatus) { h.guardEnded() })
}

// guardEnded replaces a guard, unless its end was due.
func (h *Host) guardEnded() {
	if h.over || h.guards == maxGuards {
		return
	}
	h.guard.Dismiss()
	h.guard = nil
	h.cfg.Trace("the guard has ended: starting another one")
	h.after(guardPause, h.startGuard)
}
