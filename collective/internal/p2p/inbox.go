package p2p

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// inbox matches the messages from one peer with this rank's receives, as MPI does: a
// message goes to the receive that was posted first of those with its tag, so messages
// with one tag are received in the order in which they were sent. One that comes
// before its receive waits in the unexpected-message queue.
//
// An inbox only decides. Its owner calls place for the memory where the next chunk of the link belongs, brings it
// there, and then calls arrived. In between, place returns the same memory, whatever is posted: the peer may be writing
// there. The chunks of a message follow each other.
type inbox struct {
	self, peer int
	posted     []*Message // receives without a message, in the order of posting
	unexpected []*arrival // messages without a receive, in the order in which they came
	arriving   *arrival   // the message of which more chunks will come; nil between two
	direct     arrival    // arriving, when its receive was posted before
	target     []byte     // the target of the chunk that is being brought
	bringing   bool
	probe      *Message // looks for a message, nil when none does
	all        []peer   // the peers of this rank: a receive from any peer is posted in each of their inboxes
	held       uint64   // bytes that the unexpected messages take
}

// arrival is a message of which something has come, or comes now.
type arrival struct {
	id      call.ID
	receive *Message // nil before it was posted
	buf     []byte   // bytes that came before it was posted, and the target of the next chunk
	claimed bool     // whether one Receive only takes it: see Take
}

// post adds a receive. It is done already if its message came as a whole.
func (b *inbox) post(p *Message) error {
	i := b.find(p.Tag)
	if p.taken != nil {
		i = slices.Index(b.unexpected, p.taken)
	}
	if i < 0 {
		b.posted = append(b.posted, p)
		return nil
	}
	a := b.unexpected[i]
	if p.match(b.peer, a.id); !p.fits(a.id) {
		return b.mismatch(a.id, p)
	}
	b.unexpected = slices.Delete(b.unexpected, i, i+1)
	b.held -= a.id.Bytes() + keptEach
	a.receive = p
	p.moved = copy(p.Buf, a.buf)
	p.done = a != b.arriving
	return nil
}

// mismatch returns the fault of message id, which does not fit its Receive.
func (b *inbox) mismatch(id call.ID, p *Message) error {
	return transport.Faultf(transport.FaultMismatch, -1, "rank %d sent %d %s with tag %d while rank %d called %s", b.peer,
		id.Count, id.DType, id.Tag, b.self, p)
}

// open reports whether a receive, or a probe, waits for more to come.
func (b *inbox) open() bool {
	return len(b.posted) > 0 || b.arriving != nil && b.arriving.receive != nil ||
		b.probe != nil
}

// place returns where the next chunk belongs, of n bytes of message id. Memory of messages without a receive grows
// with the received bytes, not with the length in an ID.
func (b *inbox) place(id call.ID, n int) ([]byte, error) {
	if b.bringing {
		return b.target, nil
	}
	a := b.arriving
	if a == nil {
		a = b.match(id)
	}
	p := a.receive
	switch {
	case p != nil && !p.fits(id):
		return nil, b.mismatch(id, p)
	case id != a.id:
		return nil, fmt.Errorf("rank %d sent a part of %s within %s", b.peer, id, a.id)
	case uint64(n) > a.left():
		return nil, fmt.Errorf("rank %d sent %d bytes more than its message has", b.peer, uint64(n)-a.left())
	case p != nil:
		b.target = p.Buf[p.moved : p.moved+n : p.moved+n]
	default:
		a.buf = slices.Grow(a.buf, n)
		b.target = a.buf[len(a.buf) : len(a.buf)+n]
	}
	b.bringing = true
	return b.target, nil
}

// match returns message id, of which the first chunk has come.
func (b *inbox) match(id call.ID) *arrival {
	if i := b.wanted(id.Tag); i >= 0 {
		p := b.posted[i]
		b.posted = slices.Delete(b.posted, i, i+1)
		for r := 0; p.Peer == AnySource && r < len(b.all); r++ {
			if o := &b.all[r].inbox; o != b {
				i := slices.Index(o.posted, p)
				o.posted = slices.Delete(o.posted, i, i+1)
			}
		}
		p.match(b.peer, id)
		b.direct = arrival{id: id, receive: p}
		b.arriving = &b.direct
	} else {
		b.arriving = &arrival{id: id}
		b.unexpected = append(b.unexpected, b.arriving)
		b.held += id.Bytes() + keptEach
	}
	return b.arriving
}

// wanted returns the first posted receive of messages with a tag, -1 without one.
func (b *inbox) wanted(tag int32) int {
	return slices.IndexFunc(b.posted, func(p *Message) bool { return tagged(tag, p.Tag) })
}

// left returns how many bytes of a have not come.
func (a *arrival) left() uint64 {
	bytes := a.id.Bytes()
	if a.receive != nil {
		return bytes - uint64(a.receive.moved)
	}
	return bytes - uint64(len(a.buf))
}

// arrived records that the chunk is in the memory that place returned.
func (b *inbox) arrived() {
	a, chunk := b.arriving, b.target
	b.target, b.bringing = nil, false
	if p := a.receive; p == nil {
		a.buf = a.buf[:len(a.buf)+len(chunk)]
	} else {
		if len(chunk) > 0 && &chunk[0] != &p.Buf[p.moved] { // p was posted while the chunk came
			copy(p.Buf[p.moved:], chunk)
		}
		p.moved += len(chunk)
	}
	if a.left() > 0 {
		return
	}
	if a.receive != nil {
		a.receive.done = true
	}
	b.arriving, b.direct = nil, arrival{}
}

// find returns the first message with a tag that waits for its receive, -1 without one.
func (b *inbox) find(tag int32) int {
	return slices.IndexFunc(b.unexpected, func(a *arrival) bool { return !a.claimed && tagged(a.id.Tag, tag) })
}
