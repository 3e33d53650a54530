package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// Message is one message between this rank and another, or itself: a Send or a Receive. It
// belongs to the Engine from Start until it is done.
type Message struct {
	Peer  int
	Tag   int32
	DType kernel.DType
	Buf   []byte
	Part  string // the call that it is a part of, "" where it is the caller's own
	Fewer bool   // a Receive of a message that may be shorter than Buf
	Got   *Got   // unless nil, a Receive writes its result here

	Patient bool   // a Probe that looks on where no rank is left that can send
	Call    string // how a Probe is called

	send   bool
	probe  bool
	found  call.ID // by a probe
	moved  int     // bytes
	lends  bool    // a Send whose memory its peer reads where it lies
	kept   bool    // a Send whose memory is the engine's, not the caller's
	behind []held  // those that follow a Send that is kept, oldest first
	done   bool
	had    int // bytes of Buf, once it is done
	next   *Message
}

// Got is the result of a Receive, with the rank that sent it.
type Got struct {
	From    int
	ID      call.ID
	Counted int // its bytes, for callers that count them
}

// Bytes returns the length of the received message.
func (g *Got) Bytes() int { return int(g.ID.Bytes()) }

// Done reports whether the message was sent, or received, as a whole; of one that is sent later only a copy is left.
func (p *Message) Done() bool { return p.done || p.kept }

// String describes p for users.
func (p *Message) String() string {
	name := "Recv"
	if p.send {
		name = "Send"
	}
	switch {
	case p.Part != "":
		return p.Part
	case p.probe:
		return p.Call + " (" + p.wanted() + ")"
	}
	what := fmt.Sprintf("tag %d", p.Tag)
	if p.Peer == AnySource || p.Tag == AnyTag {
		what = p.wanted()
	}
	return fmt.Sprintf("%s (%d %s, %s)", name, max(len(p.Buf), p.had)/max(p.DType.Size(), 1), p.DType, what)
}

// Bytes returns how many bytes p has moved, once it is done.
func (p *Message) Bytes() int { return p.had }

// match makes p a Receive of message id from a peer, which may be shorter than p's buffer where that is
// allowed.
func (p *Message) match(peer int, id call.ID) {
	p.Peer, p.Tag = peer, id.Tag
	if p.Fewer && (id.DType == p.DType || id.Count == 0) && id.Count < p.id().Count {
		p.Buf = p.Buf[:int(id.Count)*p.DType.Size()]
	}
	if p.Got != nil {
		p.Got.From, p.Got.ID = peer, id
	}
}

// fits reports whether p can receive message id. Nothing is of every type.
func (p *Message) fits(id call.ID) bool {
	own := p.id()
	if id.Count == 0 {
		own.DType = id.DType
	}
	return own == id
}

// Receives reports whether p is a Receive.
func (p *Message) Receives() bool { return !p.send }

func (p *Message) id() call.ID {
	return call.ID{Kind: call.Message, Count: uint64(len(p.Buf) / p.DType.Size()), DType: p.DType, Tag: p.Tag}
}

// messages is the state, on one rank, of messages from rank to rank. Those to one peer are sent in the order of Start.
type messages struct {
	lane        int // of their links; -1: there are none
	first, last *Message
	out         []transport.Sender   // by peer; nil before the first, and for this rank, whose messages are copied
	in          []transport.Receiver // by peer; likewise
	inbox       []inbox              // by peer
	busy        []bool               // scratch of one poll: an earlier Send to the peer waits
	dry         []bool               // scratch of one poll: no more is read from the peer
	looked      int                  // the rank of which a message from any has come last
	waited      *Message             // that this rank waits for; nil: it waits for a call, or for nothing
	more        bool                 // scratch of one poll: a Receive may have more to read
	head        call.Header          // scratch of one chunk: the message that it belongs to
	kept        int                  // bytes that the Sends that are kept take
	lost        *Got                 // the first of them that its receiver has left; From is the receiver
	taking      bool                 // messages are taken in that no Receive waits for
	closing     bool                 // this rank sends the messages that it keeps, and then closes
}

// openMessages opens this rank's end of a link for messages, and has room for messages to and from all.
func (e *Engine) openMessages(peer int, send bool) (err error) {
	p := &e.messages
	if p.inbox == nil {
		p.out, p.in = make([]transport.Sender, e.size), make([]transport.Receiver, e.size)
		p.inbox, p.busy, p.dry = make([]inbox, e.size), make([]bool, e.size), make([]bool, e.size)
		for r := range p.inbox {
			p.inbox[r].peer, p.inbox[r].self, p.inbox[r].all = r, e.rank, p.inbox
		}
	}
	switch {
	case peer == e.rank:
	case send && p.out[peer] == nil:
		e.ep.Sends()
		p.out[peer], err = e.ep.Sender(p.lane, peer)
	case !send && p.in[peer] == nil:
		p.in[peer], err = e.ep.Receiver(p.lane, peer)
	}
	return err
}

// openFor opens this rank's ends of the links that p may need.
func (e *Engine) openFor(p *Message, send bool) error {
	if p.Peer != AnySource {
		return e.openMessages(p.Peer, send)
	}
	for r := range e.size {
		if err := e.openMessages(r, send); err != nil {
			return err
		}
	}
	return nil
}

// post posts a Receive: the messages that have come are looked at first, those of several ranks in turn.
func (e *Engine) post(p *Message) error {
	m := &e.messages
	if p.Peer != AnySource {
		return m.inbox[p.Peer].post(p)
	}
	for i := range m.inbox {
		if peer := (m.looked + 1 + i) % e.size; m.inbox[peer].find(p.Tag) >= 0 {
			m.looked = peer
			return m.inbox[peer].post(p)
		}
	}
	for r := range m.inbox {
		m.inbox[r].posted = append(m.inbox[r].posted, p)
	}
	return nil
}

// StartSend and StartRecv begin message p. Precondition: the Engine has a lane for messages. An error is
// for transport.CallFault.
func (e *Engine) StartSend(p *Message) error { return e.startMessage(p, true) }

// StartRecv begins to receive; see StartSend.
func (e *Engine) StartRecv(p *Message) error { return e.startMessage(p, false) }

func (e *Engine) startMessage(p *Message, send bool) error {
	if err := e.beginMessage(p, send); err != nil {
		return err
	}
	return e.Poll()
}

func (e *Engine) beginMessage(p *Message, send bool) error {
	p.send, p.probe, p.moved, p.done, p.had, p.next = send, false, 0, false, 0, nil
	p.kept, p.behind = false, nil
	p.lends = send && !p.eager() && e.reach[p.Peer] && e.lendsOwn(call.Message, int64(len(p.Buf)))
	if err := e.openFor(p, send); err != nil {
		return err
	}
	if !send {
		if err := e.post(p); err != nil {
			return err
		}
	} else if p.Peer == e.rank {
		box := &e.messages.inbox[p.Peer]
		target, err := box.place(p.id(), len(p.Buf))
		if err != nil {
			return err
		}
		copy(target, p.Buf)
		box.arrived()
		p.done = true
	}
	e.messages.push(p)
	return nil
}

// push puts p behind the messages under way.
func (m *messages) push(p *Message) {
	if m.last == nil {
		m.first = p
	} else {
		m.last.next = p
	}
	m.last = p
}

// WaitMessage returns when p is done, or with the fault of the Endpoint when it
// cannot be, or when there is one by then.
func (e *Engine) WaitMessage(ctx context.Context, p *Message, w *Waiter) (transport.Fault, bool) {
	if before := e.messages.before(p); before != nil && before.kept {
		e.Keep(p)
	}
	if !p.Done() {
		if err := e.waitFor(ctx, p, w); err != nil {
			return e.failWait(err, e.Waits(p), w)
		}
		e.messages.waited = nil
	}
	return e.ep.Aborted()
}

// waitFor waits for p. The rank's wait is recorded as one for p, also when it gives up.
func (e *Engine) waitFor(ctx context.Context, p *Message, w *Waiter) error {
	e.messages.waited = p
	return w.wait(ctx, e, &p.done, w.Spins)
}

// pollMessages moves all messages as far as they can go now, each by one lent chunk at a time: other ranks wait for
// this rank to lend, which it does not do while it reads their lent memory.
func (e *Engine) pollMessages() error {
	for more := true; more && e.messages.first != nil; {
		e.messages.more = false
		if err := e.passMessages(); err != nil {
			return err
		}
		more = e.messages.more
	}
	return nil
}

func (e *Engine) passMessages() error {
	clear(e.messages.busy)
	clear(e.messages.dry)
	defer e.messages.removeDone()
	for p := e.messages.first; p != nil; p = p.next {
		var err error
		switch {
		case p.probe:
			err = e.from(p, (*Engine).probeOf)
		case p.Peer == e.rank: // its Send does all
		case p.send:
			err = e.moveOut(p)
		case p.Peer != AnySource: // the same as the default, but quicker
			err = p.unlessOver(e.receive(p.Peer))
		default:
			err = e.from(p, (*Engine).receiveFor)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeDone takes those that are done, and their memory, from the messages under way.
func (m *messages) removeDone() {
	at := &m.first
	m.last = nil
	for p := m.first; p != nil; p = *at {
		if !p.done {
			m.last, at = p, &p.next
			continue
		}
		*at = p.next
		p.had, p.Buf, p.next = len(p.Buf), nil, nil // the caller's
	}
}

// moveOut sends as much of p as fits, unless an earlier message to its peer waits.
func (e *Engine) moveOut(p *Message) error {
	if e.messages.busy[p.Peer] {
		return nil
	}
	link, slot, h := e.messages.out[p.Peer], e.slotBytes, &e.messages.head
	if *h = p.id().Header(); p.lends {
		return e.lendOut(p, link)
	}
	for !p.done {
		n := min(slot, len(p.Buf)-p.moved)
		window, ok, err := link.TryReserve(n)
		if err != nil || !ok {
			e.messages.busy[p.Peer] = true
			if p.kept && errors.Is(err, transport.ErrPeerClosed) {
				e.undelivered(p)
				err = nil
			}
			return transport.OnLink(err, "sending to", p.Peer)
		}
		copy(window, p.Buf[p.moved:])
		link.Commit(h)
		e.steps++
		p.moved += n
		if p.done = p.moved == len(p.Buf); p.done && p.kept {
			e.sentKept(p)
			*h = p.id().Header() // of the one that was kept behind it
		}
	}
	return nil
}

// lendOut lends as much of p as the link takes. p is done when all of it is returned, and later messages to its peer
// wait for that: otherwise p would wait for their lent memory as well, which might not be returned before p is done.
func (e *Engine) lendOut(p *Message, link transport.Sender) error {
	e.messages.busy[p.Peer] = true
	moved := p.moved
	helps := !e.oversubscribed && !e.receiving()
	for p.moved < len(p.Buf) {
		n := min(lentBytes, len(p.Buf)-p.moved)
		_, ok, err := link.TryReserve(0)
		if err != nil {
			return transport.OnLink(err, "sending to", p.Peer)
		}
		if !ok {
			break
		}
		link.Lend(&e.messages.head, p.Buf[p.moved:p.moved+n:p.moved+n], helps)
		p.moved += n
		e.steps++
	}
	if p.moved > moved {
		e.ep.Fence()
		link.Wake()
	}
	if p.moved == len(p.Buf) && link.Returned() {
		if _, ok, err := link.TryReserve(0); err != nil || !ok { // the peer did not read all of it
			return transport.OnLink(err, "sending to", p.Peer)
		}
		p.done = true
		e.messages.busy[p.Peer] = false
		e.steps++
		return nil
	}
	ok, err := link.Help(helps)
	if ok {
		e.steps++
	}
	return transport.OnLink(err, "sending to", p.Peer)
}

// receiving reports whether this rank waits for a message.
func (e *Engine) receiving() bool {
	for p := e.messages.first; p != nil; p = p.next {
		if !p.send && !p.done {
			return true
		}
	}
	return false
}

// receive brings the chunks that have come from a peer, while a receive waits for them.
func (e *Engine) receive(peer int) error {
	b, link, h := &e.messages.inbox[peer], e.messages.in[peer], &e.messages.head
	for (b.open() || e.messages.taking) && !e.messages.dry[peer] {
		e.messages.dry[peer] = true
		n, ok, err := e.head(peer, link, h)
		if err != nil || !ok {
			return transport.OnLink(err, "receiving from", peer)
		}
		id := h.ID()
		if !b.open() && b.arriving == nil && !e.takes(id) {
			return nil
		}
		if n > max(lentBytes, e.slotBytes) {
			return fmt.Errorf("rank %d sent %d bytes at once", peer, n)
		}
		target, err := b.place(id, n)
		if err != nil {
			return err
		}
		chunk, ok, err := e.payload(peer, link, h, target)
		if err != nil || !ok {
			return transport.OnLink(err, "receiving from", peer)
		}
		if len(chunk) != len(target) {
			return fmt.Errorf("rank %d sent %d bytes in place of %d", peer, len(chunk), len(target))
		}
		if len(chunk) > 0 && &chunk[0] != &target[0] {
			copy(target, chunk)
		}
		b.arrived()
		link.Release()
		e.steps++
		e.messages.dry[peer] = n > e.slotBytes // others have their turn
		e.messages.more = e.messages.more || e.messages.dry[peer]
	}
	return nil
}

// head returns the length of the next chunk on a link from a rank.
func (e *Engine) head(peer int, link transport.Receiver, h *call.Header) (int, bool, error) {
	if e.reach[peer] {
		return link.(transport.LentReceiver).TryHead(h)
	}
	b, ok, err := link.TryPeek(h)
	return len(b), ok, err
}

// payload returns the next chunk on a link, in into where it has to be brought from its sender's memory.
func (e *Engine) payload(peer int, link transport.Receiver, h *call.Header, into []byte) ([]byte, bool, error) {
	if e.reach[peer] {
		return link.(transport.LentReceiver).TryPeekInto(h, into)
	}
	return link.TryPeek(h)
}
