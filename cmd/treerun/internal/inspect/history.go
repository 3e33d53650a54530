//go:build linux

package inspect

import (
	"io"
	"time"

	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
)

// History is what the hang watch knows about a rank. The zero value is that of a new one.
type History struct {
	Gap time.Duration // the longest time between its calls, to about the time between two glances

	last   status.Glance
	waits  []waits.Waiting
	active time.Time // when it was last seen in a call, or had made one; zero before its first
}

// Glance reads a small part of the rank's page, and returns the beginning of the longest suspect wait, in Unix
// nanoseconds, 0 if there is none.
func (h *History) Glance(page io.ReaderAt, now time.Time) (longest int64) {
	g, err := status.ReadGlance(page)
	if err != nil {
		return 0 // the file is closed, or the rank has cut it
	}
	if g.Waits != h.last.Waits || g.Waits%2 == 1 {
		var s waits.Status
		h.waits = nil
		if b, err := status.ReadWaits(page); err == nil && strict.Unmarshal(b, &s) == nil && s.Check(max(g.Size, 1)) == nil {
			h.waits = s.Waits
		}
	}
	if moves := g.In || g.Calls != h.last.Calls; moves && g.Phase == status.Running {
		if !h.active.IsZero() && !h.last.In {
			h.Gap = max(h.Gap, now.Sub(h.active))
		}
		if g.Calls > 0 {
			h.active = now
		}
	}
	h.last = g
	if g.Phase == status.Starting && g.Size > 0 && now.UnixNano()-g.Since >= int64(leastSuspect) {
		return g.Since
	}
	for i := range h.waits {
		since := h.waits[i].Since
		if g.Phase == status.Running && isSuspect(&h.waits[i], now.UnixNano()) && (longest == 0 || since < longest) {
			longest = since
		}
	}
	return longest
}
