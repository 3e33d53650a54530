//go:build linux

package host

import (
	"io"
	"math"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// The watch glances at the page of each rank every watchInterval checks for dying ranks, and while a rank waits for
// long every hangInterval of them.
const (
	watchInterval = 10
	hangInterval  = 5
)

// watchRanks reports when the longest of all waits begins to be suspect, and when it is over. The reason follows from
// the ranks of all hosts.
func watchRanks(h *Host) {
	now, longest := time.Now(), int64(0) // Unix time of its beginning
	for _, c := range h.children {
		if c.ended || c.stopSent {
			continue
		}
		if since := c.history.Glance(c.page(), now); since > 0 && (longest == 0 || since < longest) {
			longest = since
		}
	}
	if longest == h.longest {
		return
	}
	h.longest = longest
	b := new(wire.Suspect)
	if longest > 0 {
		b.For = now.Sub(time.Unix(0, longest))
	}
	h.cfg.Report(b)
}

// page returns the status page of the rank. Reads fail once c is closed.
func (c *child) page() io.ReaderAt {
	return io.NewSectionReader(c.file, job.StatusAt, math.MaxInt64-job.StatusAt)
}
