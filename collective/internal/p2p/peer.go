package p2p

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/transport"
)

// peer is a rank with which this one exchanges messages.
type peer struct {
	q     *Queue
	inbox inbox
	out   transport.Sender // nil before the first, and for this rank itself, whose messages are copied
	in    transport.Receiver
}

// LentBytes is the largest chunk, in bytes, that ranks read from each other's memory: each costs system calls and a
// round of words between cores, together about 1 us in addition to 1 us for every 16 KiB, and where ranks share cores a
// change of rank. An AllToAll of 16 MiB of four ranks on two cores takes 6.4 ms in chunks of 256 KiB and 4.3 in those
// of 1 MiB.
const LentBytes = 1 << 20

// LentOversubscribed is the size from which memory is lent at all where ranks share cores: see engine.
const LentOversubscribed = 32 << 10

// send sends as much of p as fits, unless an earlier message to the peer waits.
func (r *peer) send(p *Message) error {
	q := r.q
	if q.busy[p.Peer] {
		return nil
	}
	h, id := &q.head, p.id()
	if id.Encode(h); p.lends {
		return r.lend(p)
	}
	for !p.done {
		n := min(q.slotBytes, len(p.Buf)-p.moved)
		window, ok, err := r.out.TryReserve(n)
		if err != nil || !ok {
			q.busy[p.Peer] = true
			if p.kept && errors.Is(err, transport.ErrPeerClosed) {
				q.undelivered(p)
				err = nil
			}
			return transport.OnLink(err, "sending to", p.Peer)
		}
		copy(window, p.Buf[p.moved:])
		r.out.Commit(h)
		q.steps++
		p.moved += n
		if p.done = p.moved == len(p.Buf); p.done && p.kept {
			q.sentKept(p)
			id = p.id() // of the one that was kept behind it
			id.Encode(h)
		}
	}
	return nil
}

// lend lends as much of p as the link takes. p is done when all of it is returned, and later messages to the peer wait
// for that: otherwise p would wait for their lent memory as well, which might not be returned before p is done.
func (r *peer) lend(p *Message) error {
	q := r.q
	q.busy[p.Peer] = true
	moved := p.moved
	helps := !q.oversubscribed && !q.under.any(func(p *Message) bool { return !p.send && !p.done })
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
		q.busy[p.Peer] = false
		q.steps++
		return nil
	}
	ok, err := r.out.Help(helps)
	if ok {
		q.steps++
	}
	return transport.OnLink(err, "sending to", p.Peer)
}

// receive brings the chunks that have come from the peer, while a receive waits for them. This rank itself sends none.
func (r *peer) receive() error {
	q, b, from := r.q, &r.inbox, r.inbox.peer
	for from != q.rank && (b.open() || q.taking) && !q.dry[from] {
		q.dry[from] = true
		n, ok, err := r.head()
		if err != nil || !ok {
			return transport.OnLink(err, "receiving from", from)
		}
		id := q.head.ID()
		if !b.open() && b.arriving == nil && !q.takes(id) {
			return nil
		}
		if n > max(LentBytes, q.slotBytes) {
			return fmt.Errorf("rank %d sent %d bytes at once", from, n)
		}
		target, err := b.place(id, n)
		if err != nil {
			return err
		}
		chunk, ok, err := r.payload(target)
		if err != nil || !ok {
			return transport.OnLink(err, "receiving from", from)
		}
		if len(chunk) != len(target) {
			return fmt.Errorf("rank %d sent %d bytes in place of %d", from, len(chunk), len(target))
		}
		if len(chunk) > 0 && &chunk[0] != &target[0] {
			copy(target, chunk)
		}
		b.arrived()
		r.in.Release()
		q.steps++
		q.dry[from] = n > q.slotBytes // others have their turn
		q.more = q.more || q.dry[from]
	}
	return nil
}

// head returns the length of the next chunk from the peer, and stores its header in the head of the Queue.
func (r *peer) head() (int, bool, error) {
	if r.q.reach[r.inbox.peer] {
		return r.in.(transport.LentReceiver).TryHead(&r.q.head)
	}
	b, ok, err := r.in.TryPeek(&r.q.head)
	return len(b), ok, err
}

// payload returns the next chunk, in into where it has to be brought from the memory of the peer.
func (r *peer) payload(into []byte) ([]byte, bool, error) {
	if r.q.reach[r.inbox.peer] {
		return r.in.(transport.LentReceiver).TryPeekInto(&r.q.head, into)
	}
	return r.in.TryPeek(&r.q.head)
}

// look looks for the message of a Probe, or receives.
func (r *peer) look(p *Message) error {
	if p.probe {
		return r.probe(p)
	}
	return r.receive()
}

// probe looks for the message of a Probe among those of the peer.
func (r *peer) probe(p *Message) error {
	box := &r.inbox
	box.probe = p
	err := r.receive()
	box.probe = nil
	if i := box.find(p.Tag); i >= 0 {
		p.Peer, p.found, p.done = box.peer, box.unexpected[i].id, true
		r.q.steps++
		return nil
	}
	return err
}
