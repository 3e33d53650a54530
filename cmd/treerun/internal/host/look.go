package host

import (
	"io"
	"math"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// look reports what the host's ranks do. It takes a moment, and the Reaper does not wait for it.
func look(h *Host, b *wire.Look) {
	var targets []inspect.Target
	for _, c := range h.children {
		if !c.ended && !c.stopSent {
			page := io.NewSectionReader(c.file, job.StatusAt, math.MaxInt64-job.StatusAt) // an error once c is closed
			targets = append(targets, inspect.Target{Rank: c.rank, PID: c.pid, Page: page,
				Stack: slices.Contains(b.Stacks, c.rank)})
		}
	}
	go func() {
		h.cfg.Report(&wire.Seen{Number: b.Number, Ranks: inspect.Look(h.cfg.Name, targets)})
	}()
}
