package host

import (
	"slices"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// look reports what the host's ranks do. It takes a moment, and the Reaper does not wait for it.
func look(h *Host, b *wire.Look) {
	var targets []inspect.Target
	for _, c := range h.children {
		if !c.ended && !c.stopSent {
			targets = append(targets, inspect.Target{Rank: c.rank, PID: c.pid, Page: c.page(), Gap: c.history.Gap,
				Stack: slices.Contains(b.Stacks, c.rank)})
		}
	}
	go func() {
		s := &wire.Seen{Number: b.Number}
		s.Ranks, s.Took = inspect.Look(h.cfg.Name, targets, b.Brief)
		s.At = time.Now().UnixNano()
		h.cfg.Report(s)
	}()
}
