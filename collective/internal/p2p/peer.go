package p2p

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// peer is a rank with which this one exchanges messages.
type peer struct {
	q        *Queue
	inbox    inbox
	out      transport.Sender // nil before the first, and for this rank itself, whose messages are copied
	in       transport.Receiver
	lent     transport.LentReceiver // in, where this rank can read the memory of the peer
	sends    messages               // the Sends to it under way
	receives int                    // the Receives of messages from it under way
	active   bool                   // whether it is among those of the Queue
}

// activate has polls move the messages to and from r.
func (r *peer) activate() {
	if !r.active {
		r.active = true
		r.q.active = append(r.q.active, r)
	}
}

// LentBytes is the largest chunk, in bytes, that ranks read from each other's memory: each costs system calls and a
// round of words between cores, together about 1 us in addition to 1 us for every 16 KiB, and where ranks share cores a
// change of rank. An AllToAll of 16 MiB of four ranks on two cores takes 6.4 ms in chunks of 256 KiB and 4.3 in those
// of 1 MiB.
const LentBytes = 1 << 20

// LentOversubscribed is the size from which memory is lent at all where ranks share cores: see engine.
const LentOversubscribed = 32 << 10

// sendAll sends as much as fits of the Sends, one after the other.
func (r *peer) sendAll() error {
	for p := r.sends.first; p != nil; p = r.sends.first {
		if err := r.send(p); err != nil || !p.done {
			return err
		}
		r.sends.remove(p, nil)
	}
	return nil
}

// send sends as much of p as fits.
func (r *peer) send(p *Message) error {
	q := r.q
	h, id := &q.head, p.id()
	if id.Encode(h); p.lends {
		return r.lend(p)
	}
	for !p.done {
		n := min(q.slotBytes, len(p.Buf)-p.moved)
		window, ok, err := r.out.TryReserve(n)
		if err != nil || !ok {
			if p.kept && errors.Is(err, transport.ErrPeerClosed) {
				r.undelivered(p)
				err = nil
			}
			return transport.OnLink(err, "sending to", p.Peer)
		}
		kernel.Copy(window, p.Buf[p.moved:p.moved+n], false)
		r.out.Commit(h)
		q.steps++
		p.moved += n
		if p.done = p.moved == len(p.Buf); p.done && p.kept {
			r.sentKept(p)
			id = p.id() // of the one that was kept behind it
			id.Encode(h)
		}
	}
	return nil
}

// lend lends as much of p as the link takes. p is done when all of it is returned, and later messages to the peer wait
// for that: otherwise p would wait for their lent memory as well, which might not be returned before p is done.
func (r *peer) lend(p *Message) error {
	q, moved := r.q, p.moved
	helps := !q.oversubscribed && q.receives == 0 && q.Probe == nil
	for p.moved < len(p.Buf) {
		n := min(LentBytes, len(p.Buf)-p.moved)
		_, ok, err := r.out.TryReserve(0)
		if err != nil {
			return transport.OnLink(err, "sending to", p.Peer)
		}
		if !ok {
			break
		}
		r.out.Lend(&q.head, p.Buf[p.moved:p.moved+n:p.moved+n], helps)
		p.moved += n
		q.steps++
	}
	if p.moved > moved {
		q.ep.Fence()
		r.out.Wake()
	}
	if p.moved == len(p.Buf) && r.out.Returned() {
		if _, ok, err := r.out.TryReserve(0); err != nil || !ok { // the peer did not read all of it
			return transport.OnLink(err, "sending to", p.Peer)
		}
		p.done = true
		q.steps++
		return nil
	}
	ok, err := r.out.Help(helps)
	if ok {
		q.steps++
	}
	return transport.OnLink(err, "sending to", p.Peer)
}

// receive brings the chunks that have come from the peer, while a receive waits for them.
func (r *peer) receive() error {
	for {
		n, ok, err := r.take()
		if ok && n <= r.q.slotBytes {
			continue
		}
		r.q.more = r.q.more || ok // others have their turn after a lent chunk
		return err
	}
}

// receiveEager is receive of messages of up to EagerBytes: larger ones are lent.
func (r *peer) receiveEager() error {
	r.q.starting = true
	err := r.receive()
	r.q.starting = false
	if errors.Is(err, transport.ErrPeerClosed) {
		return nil // the wait reports it
	}
	return err
}

// take brings the next chunk, if there is one that a receive waits for, and returns its length. This rank itself sends
// none. A message that a Probe looks for stays on the link.
func (r *peer) take() (n int, ok bool, err error) {
	q, b, from := r.q, &r.inbox, r.inbox.peer
	if from == q.rank || !b.open() && !q.taking {
		return 0, false, nil
	}
	n, ok, err = r.head()
	if err != nil || !ok {
		return 0, false, transport.OnLink(err, "receiving from", from)
	}
	id := q.head.ID()
	switch {
	case q.starting && id.Bytes() > EagerBytes:
		return 0, false, nil
	case b.arriving != nil && b.arriving.claimed && !b.open() && !q.takes(id): // it waits for its Receive
		return 0, false, nil
	case b.arriving != nil || b.wanted(id.Tag) >= 0:
	case b.probe != nil && tagged(id.Tag, b.probe.Tag):
		if b.probe.Claims {
			b.probe.claim(from, b.match(id))
		} else {
			b.probe.find(from, id)
		}
		q.steps++
		return 0, false, nil
	case !b.open() && !q.takes(id):
		return 0, false, nil
	}
	if n > max(LentBytes, q.slotBytes) {
		return 0, false, fmt.Errorf("rank %d sent %d bytes at once", from, n)
	}
	target, err := r.place(id, n)
	if err != nil {
		return 0, false, err
	}
	chunk, ok, err := r.payload(target)
	if err != nil || !ok {
		return 0, false, transport.OnLink(err, "receiving from", from)
	}
	if len(chunk) != len(target) {
		return 0, false, fmt.Errorf("rank %d sent %d bytes in place of %d", from, len(chunk), len(target))
	}
	if len(chunk) > 0 && &chunk[0] != &target[0] {
		kernel.Copy(target, chunk, false)
	}
	r.in.Release()
	q.steps++
	if err := r.arrived(); err != nil {
		return 0, false, err
	}
	return n, true, nil
}

// place is that of the inbox. A Receive from any rank is one from this peer once its message has come.
func (r *peer) place(id call.ID, n int) ([]byte, error) {
	target, err := r.inbox.place(id, n)
	if a := r.inbox.arriving; a != nil && a.receive != nil && a.receive.any {
		a.receive.any = false
		r.q.any--
		r.q.looked = r.inbox.peer
		r.receives++
		r.activate()
	}
	return target, err
}

// arrived is that of the inbox.
func (r *peer) arrived() error {
	p := r.inbox.arriving.receive
	if r.inbox.arrived(); p != nil && p.done {
		return r.received(p)
	}
	return nil
}

// received ends p, a Receive of a message from r, which is done, and sends the receipt that the sender waits for.
func (r *peer) received(p *Message) error {
	p.end()
	r.receives--
	r.q.receives--
	if !p.Sync {
		return nil
	}
	receipt := &Message{Peer: r.inbox.peer, Tag: receiptTag, DType: kernel.Uint8}
	err := r.q.Start(receipt, true)
	r.q.Keep(receipt)
	return err
}

// head returns the length of the next chunk from the peer, and stores its header in the head of the Queue.
func (r *peer) head() (int, bool, error) {
	if r.lent != nil {
		return r.lent.TryHead(&r.q.head)
	}
	b, ok, err := r.in.TryPeek(&r.q.head)
	return len(b), ok, err
}

// payload returns the next chunk, in into where it has to be brought from the memory of the peer.
func (r *peer) payload(into []byte) ([]byte, bool, error) {
	if r.lent != nil {
		return r.lent.TryPeekInto(&r.q.head, into)
	}
	return r.in.TryPeek(&r.q.head)
}

// look looks for the message of a Probe among those of the peer.
func (r *peer) look(p *Message) error {
	box := &r.inbox
	if i := box.find(p.Tag); i >= 0 {
		if p.Claims {
			p.claim(box.peer, box.unexpected[i])
		} else {
			p.find(box.peer, box.unexpected[i].id)
		}
		r.q.steps++
		return nil
	}
	box.probe = p
	err := r.receive()
	box.probe = nil
	return err
}
