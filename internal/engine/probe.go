package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/transport"
)

// AnySource as the Peer of a Probe is every rank, this one, too; AnyTag as its Tag every tag that is not negative.
const (
	AnySource = -1
	AnyTag    = -2
)

// Found is the header of the message that a Probe has found. Its sender is then the Peer of the Probe.
func (p *Message) Found() transport.Header { return p.found }

// Look makes p a Probe: it looks for the oldest message from its Peer with its Tag that no Receive has been posted for,
// and reports whether there is one. What comes meanwhile waits for its Receives as far as it has to.
func (e *Engine) Look(p *Message) (bool, error) {
	p.probe, p.done = true, false
	for r := range e.size {
		if p.Peer == AnySource || p.Peer == r {
			if err := e.openMessages(r, false); err != nil {
				return false, err
			}
		}
	}
	if err := e.Poll(); err != nil {
		return false, err
	}
	clear(e.messages.dry)
	err := e.probe(p)
	e.messages.removeDone() // what has come for a Receive meanwhile: its place may be the next message's
	return p.done, err
}

// StartProbe lets p, for which Look has found nothing, wait among the messages until there is one.
func (e *Engine) StartProbe(p *Message) {
	p.next = nil
	e.messages.push(p)
}

// probe looks for the message of a Probe. Of several ranks it begins with another one each time.
func (e *Engine) probe(p *Message) error {
	if p.Peer != AnySource {
		return e.probeOf(p, p.Peer)
	}
	left, closed := 0, error(nil)
	for i := range e.size {
		peer := (e.messages.looked + 1 + i) % e.size
		switch err := e.probeOf(p, peer); {
		case p.done:
			e.messages.looked = peer
			return nil
		case errors.Is(err, transport.ErrPeerClosed):
			left, closed = left+1, err
		case err != nil:
			return err
		}
	}
	if left > 0 && left == e.size-1 {
		return closed // nobody is there any more who could send
	}
	return nil
}

// probeOf is probe for the messages of one rank.
func (e *Engine) probeOf(p *Message, peer int) error {
	box := &e.messages.inbox[peer]
	var err error
	if peer != e.rank {
		box.probe = p
		err = e.receive(peer)
		box.probe = nil
	}
	if i := box.find(p.Tag); i >= 0 {
		p.Peer, p.found, p.done = peer, box.unexpected[i].header, true
		e.steps++
		return nil
	}
	return err
}

// Unreceived returns a message that has come from a rank and that no Receive has taken. It is for a rank that closes,
// and looks only where something may have come.
func (e *Engine) Unreceived() (from int, h transport.Header, found bool) {
	for r := range e.size {
		st := e.ep.Status(r)
		none := e.messages.lane < 0 || st.Unknown || !st.Sends
		if r == e.rank {
			none = e.messages.inbox == nil
		}
		if none || e.openMessages(r, false) != nil {
			continue
		}
		box := &e.messages.inbox[r]
		if i := box.find(AnyTag); i >= 0 {
			return r, box.unexpected[i].header, true
		}
		if r == e.rank {
			continue
		}
		if _, ok, err := e.head(r, e.messages.in[r], &h); ok && err == nil && h.Kind == messageKind && h.Root >= 0 {
			return r, h, true
		}
	}
	return 0, h, false
}

// wanted says what a Probe looks for, for people.
func (p *Message) wanted() string {
	from, tag := "any rank", "any tag"
	if p.Peer != AnySource {
		from = fmt.Sprint("rank ", p.Peer)
	}
	if p.Tag != AnyTag {
		tag = fmt.Sprint("tag ", p.Tag)
	}
	return " (" + from + ", " + tag + ")"
}

// find returns the first message with a tag that waits for its receive, -1 without one.
func (b *inbox) find(tag int32) int {
	return slices.IndexFunc(b.unexpected, func(a *arrival) bool {
		return a.header.Root == tag || tag == AnyTag && a.header.Root >= 0
	})
}
