package engine

import (
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/waits"
)

// doing names the call or message in which this rank waits.
func (e *Engine) doing() string {
	switch q := e.Messages; {
	case q.Waited != nil && e.any != nil:
		return e.any.Call + " of " + q.Describe(q.Waited)
	case q.Waited != nil:
		return q.Describe(q.Waited)
	case q.WaitedBackground != nil:
		return q.WaitedBackground.Name
	case e.first != nil:
		return e.first.ID.String()
	}
	return "nothing"
}

// Waited returns the ID of the call that the rank of e waits for, false if it waits for no call.
func Waited(e *Engine) (id call.ID, is bool) {
	if q := e.Messages; q.Waited != nil || q.WaitedBackground != nil || e.first == nil {
		return id, false
	}
	return e.first.ID, true
}

// blockers returns the ranks whose chunk or slot this rank lacks.
func (e *Engine) blockers() []waits.Blocker {
	switch p := e.Messages.Waited; {
	case e.any != nil:
		return e.any.blockers(e)
	case p != nil:
		return e.Messages.Blockers(p)
	}
	return callBlockers(e)
}

// callBlockers is blockers, of the oldest call under way.
func callBlockers(e *Engine) (list []waits.Blocker) {
	seen := make(map[int32]bool)
	for i := 0; e.first != nil && i < len(e.active.tracks); i++ {
		if t := &e.active.tracks[i]; t.call != nil && t.chunk < t.Chunks {
			t.steps[t.next].blockers(func(peer int32, what string) {
				if !seen[peer] {
					seen[peer] = true
					list = append(list, e.Calls.Blocker(int(peer), what))
				}
			})
		}
	}
	return list
}

// blockers calls f for the ranks whose chunk s needs and has not got, or, if it
// has them all, for those that have no free slot.
func (s *step) blockers(f func(peer int32, what string)) {
	var h call.Header
	all := true
	for _, a := range s.operands {
		if a.in == nil {
			continue
		}
		if _, ok, _ := a.in.TryPeek(&h); !ok {
			all = false
			f(a.From, "to send")
		}
	}
	if !all {
		return
	}
	for _, o := range s.outs {
		if _, ok, _ := o.link.TryReserve(0); !ok {
			f(o.to, "to take a chunk")
		}
	}
}
