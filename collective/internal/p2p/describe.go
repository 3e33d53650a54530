package p2p

import (
	"fmt"

	"github.com/treerun/treerun/internal/waits"
)

// Describe describes, for users, message p that this rank waits for, and the messages that have come in its place: with
// another tag.
func (q *Queue) Describe(p *Message) string {
	text, more := p.String(), 0
	if q.Closing {
		text = "Close, after " + text
	}
	for r := 0; !p.send && r < len(q.peers); r++ {
		for _, a := range q.peers[r].inbox.unexpected {
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

// Blockers returns the ranks that message p, for which this rank waits, needs.
func (q *Queue) Blockers(p *Message) (list []waits.Blocker) {
	what := "to send"
	if p.send || p.IsReceipt() {
		what = "to receive"
	}
	if p.Peer != AnySource {
		return []waits.Blocker{q.calls.Blocker(p.Peer, what)}
	}
	for r := range q.size {
		if r == q.rank && q.size > 1 || q.ep.Status(r).Closed {
			continue
		}
		b := q.calls.Blocker(r, what)
		b.Any = true
		list = append(list, b)
	}
	return list
}
