//go:build linux

package host

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// terminate sends SIGTERM to all ranks and the processes that ended ones have left. SIGCONT lets stopped processes
// receive it.
func (h *Host) terminate() {
	if h.stopSent || h.killed || h.sweeping {
		return // they have been sent more than that
	}
	h.stopSent = true
	h.markStopped()
	h.signalAll(unix.SIGTERM)
	h.signalAll(unix.SIGCONT)
	h.endIfDone()
}

// kill ends all ranks and their leftover processes, at once.
func (h *Host) kill() {
	h.markStopped()
	h.signalAll(unix.SIGKILL)
	if !h.killed {
		h.killed = true
		h.after(LostAfter, func() { h.end(true) })
	}
	h.endIfDone()
}

func (h *Host) markStopped() {
	for _, c := range h.children {
		c.stopSent = c.stopSent || c.dyingChecks == 0
	}
}

// signalAll sends sig to the process groups of all ranks that have not ended,
// and to those that ended ranks have left processes in. A rank's pid is the group's number;
// it belongs to the rank until the rank is waited for, and after that as long as a child of
// ours is in the group.
// A rank that has left its group is signaled by its number.
func (h *Host) signalAll(sig syscall.Signal) {
	for _, c := range h.children {
		if c.signalProgram(sig) {
			continue
		}
		if !h.released || c.groupLives() {
			c.signalErr = unix.Kill(-c.pid, sig)
		}
		group, err := unix.Getpgid(c.pid)
		if h.released || c.ended || err != nil || group == c.pid {
			continue
		}
		c.signalErr = unix.Kill(c.pid, sig)
		if !c.leftGroup && sig == unix.SIGTERM {
			c.leftGroup = true
			h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d (process %d) has left its process group for %d: treerun "+
				"stops it alone, and not the processes that it has started there", c.rank, c.pid, group)})
		}
	}
}
