package engine

import (
	"bytes"
	"context"
	"errors"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// A Send of up to eagerBytes does not wait for its receiver, as in MPI's eager protocol: a message that finds no room
// in the slots of its link is kept in memory of the sender, and sent during later calls and between them. A rank that
// waits takes in arriving messages, with or without a Receive for them, so that slots become free and ranks that Send
// in a circle make progress.
const (
	eagerBytes = 64 << 10
	keptBytes  = 64 << 20 // limit of the Sends that a rank keeps, and of the messages that it takes in without a Receive
	keptEach   = 64       // bytes that a message takes in addition to its payload
)

// held is a Send that waits behind another to the same rank.
type held struct {
	tag   int32
	dtype kernel.DType
	buf   []byte
}

// eager reports whether p is kept where it finds no room. It is not lent: its receiver may read it much later.
func (p *Message) eager() bool { return p.Part == "" && len(p.Buf) <= eagerBytes }

// before returns the last Send under way before p to the same rank, nil without one or if p is no Send.
func (m *messages) before(p *Message) (before *Message) {
	for q := m.first; p.send && q != p && q != nil; q = q.next {
		if q.send && q.Peer == p.Peer {
			before = q
		}
	}
	return before
}

// Keep makes the memory of a Send that has found no room the engine's own: the caller's may be used again. It reports
// whether there was room for that.
func (e *Engine) Keep(p *Message) bool {
	m := &e.messages
	if !p.send || p.Done() || !p.eager() || m.kept+len(p.Buf)+keptEach > keptBytes {
		return false
	}
	m.kept += len(p.Buf) + keptEach
	p.Buf = bytes.Clone(p.Buf)
	before := m.before(p)
	if p.kept = before == nil || !before.kept; !p.kept {
		before.behind = append(before.behind, held{p.Tag, p.DType, p.Buf})
		p.done = true
		m.removeDone()
	}
	return true
}

// sentKept continues with the next message that was kept behind p, which was sent.
func (e *Engine) sentKept(p *Message) {
	e.messages.kept -= len(p.Buf) + keptEach
	if len(p.behind) == 0 {
		return
	}
	next := p.behind[0]
	p.behind[0] = held{}
	p.behind = p.behind[1:]
	p.Tag, p.DType, p.Buf, p.moved, p.done = next.tag, next.dtype, next.buf, 0, false
}

// undelivered drops the messages that were kept for a rank that has closed, and notes the first of them.
func (e *Engine) undelivered(p *Message) {
	if e.messages.lost == nil {
		e.messages.lost = &Got{From: p.Peer, ID: p.id()}
	}
	for len(p.behind) > 0 {
		e.sentKept(p)
	}
	e.sentKept(p)
	p.done = true
	e.steps++
}

// Keeps reports whether messages are kept that have not been sent.
func (e *Engine) Keeps() bool { return e.messages.kept > 0 }

// Flush waits until all kept messages have been sent. It is for a rank that closes: of messages that come meanwhile
// only the headers are kept.
func (e *Engine) Flush(ctx context.Context, w *Waiter) (transport.Fault, bool) {
	e.messages.closing = true
	for fault, failed := e.ep.Aborted(); ; fault, failed = e.ep.Aborted() {
		p := e.messages.first
		for p != nil && !p.kept {
			p = p.next
		}
		if failed || p == nil {
			return fault, failed
		}
		if err := e.waitFor(ctx, p, w); err != nil {
			return e.failWait(err, e.Waits(p), w)
		}
	}
}

// Move moves the messages of a rank that waits in no call, and takes in arrived messages: other ranks may wait for
// that.
func (e *Engine) Move() (moved bool, err error) {
	steps := e.steps
	if err = errors.Join(e.pollMessages(), e.moveBeside()); err == nil {
		moved, err = e.takeIn()
	}
	return moved || e.steps != steps, err
}

// takeIn moves messages from other ranks that this rank does not receive yet to the unexpected-message queue, as far as
// takes allows. It reports whether there were any, which is no step of the call or message that the rank waits for.
func (e *Engine) takeIn() (took bool, err error) {
	m, steps := &e.messages, e.steps
	defer func() {
		took, e.steps, m.taking = e.steps != steps, steps, false
		m.removeDone() // Receives that are done meanwhile: their place may be the next message's
	}()
	for r := 0; r < e.size && m.lane >= 0; r++ {
		st := transport.Status{Unknown: r == e.rank}
		if m.in == nil || m.in[r] == nil {
			if !st.Unknown {
				st = e.ep.Status(r)
			}
			if st.Unknown || !st.Sends {
				continue
			}
			if err := e.openMessages(r, false); err != nil {
				return false, err
			}
		}
		m.taking, m.dry[r] = true, false
		if err := e.receive(r); err != nil && !errors.Is(err, transport.ErrPeerClosed) {
			return false, err
		}
		b := &m.inbox[r]
		for i := 0; m.closing && b.arriving == nil && i < len(b.unexpected); i++ {
			b.unexpected[i].buf, b.held = nil, 0
		}
	}
	return false, nil
}

// takes reports whether a message is taken in that this rank does not receive yet: one of up to eagerBytes, or a larger
// one while a Send of this rank waits, in memory that is bounded unless this rank closes.
func (e *Engine) takes(id call.ID) bool {
	m, most := &e.messages, uint64(eagerBytes)
	for p := m.first; p != nil; p = p.next {
		if p.send && !p.Done() {
			most = keptBytes
		}
	}
	held := id.Bytes()
	if id.Count > most || held > most {
		return m.closing
	}
	for r := range m.inbox {
		held += m.inbox[r].held
	}
	return held <= keptBytes || m.closing
}
