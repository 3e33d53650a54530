//go:build linux

package host

import (
	"slices"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// look reports what the host's ranks do. It takes a moment, and the Reaper does not wait for it.
func look(h *Host, b *wire.Look) {
	var targets []inspect.Target
	for _, c := range h.children {
		if !c.ended && !c.stopSent {
			targets = append(targets, inspect.Target{Rank: c.rank, PID: c.pid, Page: c.page(), Gap: c.history.Gap,
				Debugged: c.debugged, Show: c.show, Stack: slices.Contains(b.Stacks, c.rank)})
		}
	}
	go func() {
		s := &wire.Seen{Number: b.Number}
		s.Ranks, s.Took = inspect.Look(h.cfg.Name, targets, b.Brief)
		s.At = time.Now().UnixNano()
		h.cfg.Report(s)
	}()
}

// showTimeout is the time that a rank has to send the stacks of its goroutines.
const showTimeout = 200 * time.Millisecond

// show returns the stacks of the rank's goroutines, as the rank prints them, "" if it does not. Package stacks has the
// reason why ptrace does not read them.
func (c *child) show() string {
	select {
	case <-c.stacks: // too late for an earlier look
	default:
	}
	if c.asked.CompareAndSwap(false, true) { // else it has still to answer
		c.out.Add(&job.Message{Kind: job.Show})
	}
	select {
	case text := <-c.stacks:
		return text
	case <-time.After(showTimeout):
		return ""
	}
}
