//go:build linux

package host

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// dyingInterval is how often a host looks for ranks that have begun to end. A rank that has at two checks, and has not
// ended, is reported: for most the end itself comes before.
const dyingInterval = 100 * time.Millisecond

// checkDying looks for ranks that have begun to end, and whose memory the system takes back for so long that the others
// should not wait for it.
func (h *Host) checkDying() {
	for _, c := range h.children {
		if c.ended || !c.isDying() {
			continue
		}
		if c.dyingChecks++; c.dyingChecks == 2 {
			_ = c.control.SetReadDeadline(time.Unix(1, 0)) // receive reports it
		}
	}
	if h.checks++; h.checks%stoppedInterval == 0 && !h.stopSent && !h.killed && slices.Max(h.job.File.Hosts) > 0 {
		h.reportStopped()
	}
	if h.checks%watchInterval == 0 || h.longest > 0 && h.checks%hangInterval == 0 {
		watchRanks(h)
	}
	if h.running > 0 || !h.last {
		h.after(dyingInterval, h.checkDying)
	}
}

// stoppedInterval is the number of checks for dying ranks from one check for stopped ranks to the next.
const stoppedInterval = 5

// reportStopped reports ranks that are stopped at two checks, though not by the terminal.
func (h *Host) reportStopped() {
	for _, c := range h.children {
		c.state = job.StatProc(c.pid)
		if !c.state.Stopped() || c.state.Signal == unix.SIGTSTP {
			c.stoppedChecks = 0
		} else if c.stoppedChecks++; c.stoppedChecks == 2 && !h.job.File.Renews {
			h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d is %v (process %d)", c.rank, c.state, c.pid)})
		}
	}
}

// dyingGrace is the time that a rank whose end has begun may take before the others are notified. Most end sooner, and
// then it is known how.
const dyingGrace = 2 * time.Millisecond

// onDeathBegun notes that the kernel ends a rank. Its goroutine is that of deaths.
func (h *Host) onDeathBegun(c *child) {
	h.after(dyingGrace, func() {
		if !c.ended && c.dyingChecks < 2 {
			c.dyingChecks = 2
			_ = c.control.SetReadDeadline(time.Unix(1, 0)) // receive reports it
		}
	})
}
