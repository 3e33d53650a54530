package p2p

import (
	"errors"
	"slices"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Look makes p a Probe: it looks for the oldest message from its Peer with its Tag that no Receive has been posted for,
// and reports whether there is one. Messages that come before it wait for their Receives; it stays where it is.
// Precondition: the links of p are open.
func (q *Queue) Look(p *Message) (bool, error) {
	p.probe, p.done = true, false
	q.Probe = p
	err := q.look()
	q.Probe = nil
	return p.done, err
}

// look looks for the message of the Probe, if there is one.
func (q *Queue) look() (err error) {
	p := q.Probe
	switch {
	case p == nil:
		return nil
	case p.Peer == AnySource:
		err = q.fromAny(p)
	default:
		err = q.peers[p.Peer].look(p)
	}
	if p.done {
		q.Probe = nil
	}
	if (p.Patient || p.done) && errors.Is(err, transport.ErrPeerClosed) {
		return nil
	}
	return err
}

// fromAny looks for the message of Probe p, or receives if it is nil, at all ranks. It begins with another one each
// time. That ranks have closed is an error if no rank is left that can send.
func (q *Queue) fromAny(p *Message) error {
	left, closed, first := 0, error(nil), q.looked+1
	for i := range q.size {
		r, err := &q.peers[(first+i)%q.size], error(nil)
		if p == nil {
			err = r.receive()
		} else {
			err = r.look(p)
		}
		switch {
		case errors.Is(err, transport.ErrPeerClosed):
			left, closed = left+1, err
		case err != nil:
			return err
		}
		if p == nil && q.any == 0 {
			return nil
		}
		if p != nil && p.done {
			q.looked = p.Peer
			return nil
		}
	}
	if left > 0 && left == q.size-1 {
		return closed
	}
	return nil
}

// Unreceived returns a message that has come from a rank and that no Receive has taken, or that this rank has kept for
// one that has closed. It is for a rank that closes, and looks only where something may have come.
func (q *Queue) Unreceived() (from, to int, id call.ID, found bool) {
	if m := q.lost; m != nil {
		return q.rank, m.to, m.id, true
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
		if i := slices.IndexFunc(box.unexpected, func(a *arrival) bool { return a.id.Tag >= 0 }); i >= 0 {
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
