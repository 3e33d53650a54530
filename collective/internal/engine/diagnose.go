package engine

import (
	"fmt"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/waits"
)

// doing names the call or message in which this rank waits.
func (e *Engine) doing() string {
	switch {
	case e.messages.waited != nil:
		return e.Waits(e.messages.waited)
	case e.waitsBeside != nil:
		return e.waitsBeside.Name
	case e.first != nil:
		return e.first.ID.String()
	}
	return "nothing"
}

// Waits names message p that this rank waits for, with those that have come in its place: of another tag.
func (e *Engine) Waits(p *Message) string {
	text, more := p.String(), 0
	if e.messages.closing {
		text = "Close, after " + text
	}
	for r := 0; !p.send && r < len(e.messages.inbox); r++ {
		for _, a := range e.messages.inbox[r].unexpected {
			if p.Peer != AnySource && p.Peer != r || a.id.Tag < 0 || a.receive != nil {
				continue
			}
			if more++; more == 1 {
				text += fmt.Sprintf(" [unreceived: %d %v, tag %d, from rank %d", a.id.Count, a.id.DType, a.id.Tag, r)
			}
		}
	}
	switch {
	case more > 1:
		text += fmt.Sprintf(", and %d more]", more-1)
	case more == 1:
		text += "]"
	}
	return text
}

// lacking returns the ranks whose chunk or slot this rank lacks, and their entries on the board.
func (e *Engine) lacking() []waits.Lack {
	seen := make(map[int32]bool)
	var list []waits.Lack
	p := e.messages.waited
	anySource := p != nil && p.Peer == AnySource
	lacks := func(peer int32, what string) {
		if seen[peer] || anySource && e.ep.Status(int(peer)).Closed {
			return
		}
		seen[peer] = true
		b := e.Calls.Blocker(int(peer), what)
		b.Any = anySource
		list = append(list, b)
	}
	for r := 0; p != nil && r < e.size; r++ {
		switch {
		case anySource && r == e.rank && e.size > 1 || !anySource && r != p.Peer:
		case p.send:
			lacks(int32(r), "to receive")
		default:
			lacks(int32(r), "to send")
		}
	}
	for i := 0; p == nil && e.first != nil && i < len(e.active.tracks); i++ {
		if t := &e.active.tracks[i]; t.call != nil && t.chunk < t.Chunks {
			t.steps[t.next].lacks(lacks)
		}
	}
	return list
}

// lacks calls f for the ranks whose chunk s needs and has not got, or, if it
// has them all, for those that have no free slot.
func (s *step) lacks(f func(peer int32, what string)) {
	var h call.Header
	all := true
	for _, a := range s.args {
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
