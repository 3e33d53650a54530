package p2p

import (
	"bytes"
	"errors"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// A Send of up to EagerBytes does not wait for its receiver, as in MPI's eager protocol: a message that finds no room
// in the slots of its link is kept in memory of the sender, and sent during later calls and between them. A rank that
// waits takes in arriving messages, with or without a Receive for them, so that slots become free and ranks that Send
// in a circle make progress.
const (
	EagerBytes = 64 << 10
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
func (p *Message) eager() bool { return p.Part == "" && len(p.Buf) <= EagerBytes && !p.Sync }

// Keep copies a Send that has found no room to memory of the Queue: the caller's may be used again. It reports whether
// there was room for that.
func (q *Queue) Keep(p *Message) bool {
	if !p.send || p.Done() || !p.eager() || q.kept+len(p.Buf)+keptEach > keptBytes {
		return false
	}
	q.kept += len(p.Buf) + keptEach
	p.Buf = bytes.Clone(p.Buf)
	sends := &q.peers[p.Peer].sends
	before := sends.before(p)
	if p.kept = before == nil || !before.kept; !p.kept {
		before.behind = append(before.behind, held{p.Tag, p.DType, p.Buf})
		sends.remove(p, before)
	}
	return true
}

// sentKept continues with the next message that was kept behind p, which was sent.
func (r *peer) sentKept(p *Message) {
	r.q.kept -= len(p.Buf) + keptEach
	if len(p.behind) == 0 {
		return
	}
	next := p.behind[0]
	p.behind[0] = held{}
	p.behind = p.behind[1:]
	p.Tag, p.DType, p.Buf, p.moved, p.done = next.tag, next.dtype, next.buf, 0, false
}

// lost is a message that was kept for a rank which has closed.
type lost struct {
	to int
	id call.ID
}

// undelivered drops the messages that were kept for a rank that has closed, and notes the first of them.
func (r *peer) undelivered(p *Message) {
	q := r.q
	if q.lost == nil {
		q.lost = &lost{to: p.Peer, id: p.id()}
	}
	for len(p.behind) > 0 {
		r.sentKept(p)
	}
	r.sentKept(p)
	p.done = true
	q.steps++
}

// Keeps reports whether messages are kept that have not been sent.
func (q *Queue) Keeps() bool { return q.kept > 0 }

// FirstKept returns the first Send under way that is kept, nil without one.
func (q *Queue) FirstKept() *Message {
	for _, r := range q.active {
		for p := r.sends.first; p != nil; p = p.next {
			if p.kept {
				return p
			}
		}
	}
	return nil
}

// KeepBehind keeps p if the Send to the same rank that is under way before it is kept: p cannot be sent before that.
func (q *Queue) KeepBehind(p *Message) {
	if p.send && !p.done {
		if before := q.peers[p.Peer].sends.before(p); before != nil && before.kept {
			q.Keep(p)
		}
	}
}

// TakeIn moves messages from other ranks that this rank does not receive yet to the unexpected-message queue, as far as
// takes allows. It reports whether there were any.
func (q *Queue) TakeIn() (took bool, err error) {
	steps := q.steps
	for r := 0; r < q.size && q.lane >= 0 && err == nil; r++ {
		err = q.takeInFrom(r)
	}
	q.taking = false
	return q.steps != steps, err
}

// takeInFrom is TakeIn of the messages from one rank.
func (q *Queue) takeInFrom(r int) error {
	if q.peers == nil || q.peers[r].in == nil {
		if r == q.rank {
			return nil
		}
		if st := q.ep.Status(r); st.Unknown || !st.Sends {
			return nil
		}
		if err := q.open(r, false); err != nil {
			return err
		}
	}
	q.taking = true
	if err := q.peers[r].receive(); err != nil && !errors.Is(err, transport.ErrPeerClosed) {
		return err
	}
	b := &q.peers[r].inbox
	for i := 0; q.Closing && b.arriving == nil && i < len(b.unexpected); i++ {
		b.unexpected[i].buf, b.held = nil, 0 // only the IDs are kept
	}
	return nil
}

// takes reports whether a message is taken in that this rank does not receive yet: one of up to EagerBytes, or a larger
// one while a Send of this rank waits, in memory that is bounded unless this rank closes.
func (q *Queue) takes(id call.ID) bool {
	limit := uint64(EagerBytes)
	if q.sends() {
		limit = keptBytes
	}
	held := id.Bytes()
	if id.Count > limit || held > limit {
		return q.Closing
	}
	for r := range q.peers {
		held += q.peers[r].inbox.held
	}
	return held <= keptBytes || q.Closing
}
