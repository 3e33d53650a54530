package host

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// Ranks that have not joined the job are looked at so often, and for so long: what
// they need until then is bounded by --start-timeout, which says nothing of a process.
const (
	inspectEvery = 2 * time.Second
	maxInspects  = 60
)

// said passes a message of a rank on.
func (h *Host) said(c *child, m *job.Message) {
	c.joined = c.joined || m.Kind == job.Joined
	h.cfg.Report(&wire.RankMessage{Rank: c.rank, Message: m})
}

// inspect reports ranks for which the others wait because they are stopped, or hang in
// the kernel. Twice in a row: one that is continued may be seen before it runs.
func (h *Host) inspect() {
	if h.stop || h.killed {
		return
	}
	waiting := false
	for _, c := range h.children {
		if c.ended || c.joined {
			continue
		}
		waiting = true
		s := job.StatProc(c.pid)
		if stuck := s.Stopped() || s.Code == 'D'; stuck && s == c.state && !c.reported && h.usesRank() {
			c.reported = true
			h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d (pid %d) has not joined the job, and is %v", c.rank, c.pid, s)})
		}
		c.state = s
	}
	if h.inspects++; waiting && h.inspects < maxInspects {
		h.after(inspectEvery, h.inspect)
	}
}

// usesRank tells whether the program uses package rank, as far as it is known: a rank
// of this host has read its job file, or rank 0 has said where it listens.
func (h *Host) usesRank() bool {
	for _, c := range h.children {
		h.uses = h.uses || !c.ended && c.readJobFile()
	}
	return h.uses
}
