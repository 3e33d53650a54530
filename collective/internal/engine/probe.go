package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// AnySource as the Peer of a Probe or Receive is every rank, this one, too; AnyTag as its Tag every tag that is not
// negative.
// Arithmetic on ranks and tags gives neither.
const (
	AnySource = math.MinInt32
	AnyTag    = math.MinInt32 + 1
)

// Found is the message that a Probe has found.
func (p *Message) Found() Got { return Got{From: p.Peer, ID: p.found} }

// Look makes p a Probe: it looks for the oldest message from its Peer with its Tag that no Receive has been posted for,
// and reports whether there is one. Messages that come meanwhile wait for their Receives as far as necessary.
func (e *Engine) Look(p *Message) (bool, error) {
	p.probe, p.done = true, false
	if err := e.openFor(p, false); err != nil {
		return false, err
	}
	if err := e.Poll(); err != nil {
		return false, err
	}
	clear(e.messages.dry)
	err := e.from(p, (*Engine).probeOf)
	e.messages.removeDone() // Receives that are done meanwhile: their place may be the next message's
	return p.done, err
}

// StartProbe lets p, for which Look has found nothing, wait among the messages until there is one.
func (e *Engine) StartProbe(p *Message) {
	p.next = nil
	e.messages.push(p)
}

// Forever is the timeout of a Probe that only a message ends.
const Forever = time.Duration(-1)

// WaitProbe is WaitMessage of a Probe, for no longer than most: a wait that ends by itself is none to report.
func (e *Engine) WaitProbe(ctx context.Context, p *Message, w *Waiter, most time.Duration) (transport.Fault, bool) {
	if most == Forever {
		return e.WaitMessage(ctx, p, w)
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	quiet := *w
	quiet.Watch = nil
	err := e.waitFor(within, p, &quiet)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		p.done = true // so that it leaves the messages under way
		e.messages.removeDone()
		p.done = false
	case err != nil:
		return e.failWait(err, p.String(), w)
	}
	e.messages.waited = nil
	return e.ep.Aborted()
}

// from has f look for the message of a Probe or Receive, for one of any rank at all of them. It begins with another one
// each time. That ranks have closed is an error if no rank is left that can send.
func (e *Engine) from(p *Message, f func(e *Engine, p *Message, peer int) error) error {
	if p.Peer != AnySource {
		return p.unlessOver(f(e, p, p.Peer))
	}
	left, closed := 0, error(nil)
	for i := range e.size {
		peer := (e.messages.looked + 1 + i) % e.size
		switch err := f(e, p, peer); {
		case p.Peer != AnySource:
			e.messages.looked = peer
			return p.unlessOver(err)
		case errors.Is(err, transport.ErrPeerClosed):
			left, closed = left+1, err
		case err != nil:
			return err
		}
	}
	if left > 0 && left == e.size-1 {
		return p.unlessOver(closed)
	}
	return nil
}

// unlessOver is err, but nil where that is the end of a rank from which p waits for nothing, or does not mind.
func (p *Message) unlessOver(err error) error {
	if (p.Patient || p.done) && errors.Is(err, transport.ErrPeerClosed) {
		return nil
	}
	return err
}

// receiveFor is receive for p, from one of the ranks that it may be from.
func (e *Engine) receiveFor(_ *Message, peer int) error {
	if peer == e.rank {
		return nil
	}
	return e.receive(peer)
}

// probeOf looks for the message of a Probe among those of one rank.
func (e *Engine) probeOf(p *Message, peer int) error {
	box := &e.messages.inbox[peer]
	var err error
	if peer != e.rank {
		box.probe = p
		err = e.receive(peer)
		box.probe = nil
	}
	if i := box.find(p.Tag); i >= 0 {
		p.Peer, p.found, p.done = peer, box.unexpected[i].id, true
		e.steps++
		return nil
	}
	return err
}

// Unreceived returns a message that has come from a rank and that no Receive has taken, or that this rank has kept for
// one that has closed. It is for a rank that closes, and looks only where something may have come.
func (e *Engine) Unreceived() (from, to int, id call.ID, found bool) {
	if m := e.messages.lost; m != nil {
		return e.rank, m.From, m.ID, true
	}
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
			return r, e.rank, box.unexpected[i].id, true
		}
		if r == e.rank {
			continue
		}
		h := &e.messages.head
		if _, ok, err := e.head(r, e.messages.in[r], h); ok && err == nil {
			if id = h.ID(); id.Kind == call.Message && id.Tag >= 0 {
				return r, e.rank, id, true
			}
		}
	}
	return 0, 0, id, false
}

// wanted describes, for users, the message that a Probe looks for.
func (p *Message) wanted() string {
	from, tag := "any rank", "any tag"
	if p.Peer != AnySource {
		from = fmt.Sprint("rank ", p.Peer)
	}
	if p.Tag != AnyTag {
		tag = fmt.Sprint("tag ", p.Tag)
	}
	return from + ", " + tag
}

// find returns the first message with a tag that waits for its receive, -1 without one.
func (b *inbox) find(tag int32) int {
	return slices.IndexFunc(b.unexpected, func(a *arrival) bool {
		return tagged(a.id.Tag, tag)
	})
}

// tagged reports whether a message with a tag is one that is wanted with another, which may be AnyTag.
func tagged(tag, wanted int32) bool { return tag == wanted || wanted == AnyTag && tag >= 0 }
