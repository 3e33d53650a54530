package p2p

import (
	"errors"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Look makes p a Probe: it looks for the oldest message from its Peer with its Tag that no Receive has been posted for,
// and reports whether there is one. Messages that come meanwhile wait for their Receives as far as necessary.
// Precondition: the links of p are open.
func (q *Queue) Look(p *Message) (bool, error) {
	p.probe, p.done = true, false
	clear(q.dry)
	err := q.from(p)
	q.under.removeDone() // Receives that are done meanwhile: their place may be the next message's
	return p.done, err
}

// StartProbe lets p, for which Look has found nothing, wait among the messages until there is one.
func (q *Queue) StartProbe(p *Message) {
	p.next = nil
	q.under.push(p)
}

// Drop takes a Probe that has found nothing from the messages under way.
func (q *Queue) Drop(p *Message) {
	p.done = true
	q.under.removeDone()
	p.done = false
}

// from looks for the message of a Probe or Receive, for one of any rank at all of them. It begins with another one each
// time. That ranks have closed is an error if no rank is left that can send.
func (q *Queue) from(p *Message) error {
	if p.Peer != AnySource {
		return p.ignoreClosed(q.peers[p.Peer].look(p))
	}
	left, closed := 0, error(nil)
	for i := range q.size {
		r := (q.looked + 1 + i) % q.size
		switch err := q.peers[r].look(p); {
		case p.Peer != AnySource:
			q.looked = r
			return p.ignoreClosed(err)
		case errors.Is(err, transport.ErrPeerClosed):
			left, closed = left+1, err
		case err != nil:
			return err
		}
	}
	if left > 0 && left == q.size-1 {
		return p.ignoreClosed(closed)
	}
	return nil
}

// Unreceived returns a message that has come from a rank and that no Receive has taken, or that this rank has kept for
// one that has closed. It is for a rank that closes, and looks only where something may have come.
func (q *Queue) Unreceived() (from, to int, id call.ID, found bool) {
	if m := q.lost; m != nil {
		return q.rank, m.From, m.ID, true
	}
	for r := range q.size {
		st := q.ep.Status(r)
		none := q.lane < 0 || st.Unknown || !st.Sends
		if r == q.rank {
			none = q.peers == nil
		}
		if none || q.open(r, false) != nil {
			continue
		}
		box := &q.peers[r].inbox
		if i := box.find(AnyTag); i >= 0 {
			return r, q.rank, box.unexpected[i].id, true
		}
		if r == q.rank {
			continue
		}
		if _, ok, err := q.peers[r].head(); ok && err == nil {
			if id = q.head.ID(); id.Kind == call.Message && id.Tag >= 0 {
				return r, q.rank, id, true
			}
		}
	}
	return 0, 0, id, false
}
