package p2p

import (
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Quick does p, a Send or a Receive, as a whole if that takes one chunk and can be done now, and before that nothing
// else has to move: p is then done. If it reports false, p is for Start, which also finds its fault. A Receive
// polls at most the given number of times: one that has been posted takes longer once its message comes.
func (q *Queue) Quick(p *Message, send bool, polls int) bool {
	if q.peers == nil || p.Peer == q.rank || p.Peer == AnySource || p.Tag < 0 || p.taken != nil ||
		!p.eager() && send {
		return false
	}
	r := &q.peers[p.Peer]
	done := send && r.sendNow(p) || !send && r.receiveNow(p, polls)
	if done {
		q.steps++
		p.send = send
		p.end()
	}
	return done
}

// sendNow sends p if it fits a slot that is free.
func (r *peer) sendNow(p *Message) bool {
	if r.out == nil || r.sends.first != nil || len(p.Buf) > r.q.slotBytes {
		return false
	}
	window, ok, err := r.out.TryReserve(len(p.Buf))
	if err != nil || !ok {
		return false
	}
	kernel.Copy(window, p.Buf, false)
	h := &r.q.head
	*h = call.Header{Count: uint64(len(p.Buf) / p.DType.Size()), What: p.what()}
	r.out.Commit(h)
	return true
}

// what is that of the Header of p.
func (p *Message) what() uint64 {
	return call.What(uint8(call.Message), 0, uint8(p.DType), uint8(p.DType>>8), p.Tag)
}

// receiveNow receives p if its message is the next on the link. A payload of which a part has come by then continues
// to come to p.Buf after Start.
func (r *peer) receiveNow(p *Message, polls int) bool {
	b, h := &r.inbox, &r.q.head
	if r.in == nil || b.arriving != nil || b.find(p.Tag) >= 0 || b.wanted(p.Tag) >= 0 {
		return false
	}
	n, ok, err := r.head()
	for ; !ok && err == nil && polls > 1; polls-- {
		n, ok, err = r.head()
	}
	size := p.DType.Size()
	switch {
	case err != nil || !ok || h.What != p.what() || h.Seq != 0:
		return false
	case h.Count > uint64(n) || int(h.Count)*size != n || n > r.q.slotBytes:
		return false
	case n > len(p.Buf) || n < len(p.Buf) && !p.Fewer:
		return false
	}
	id := h.ID()
	chunk, ok, err := r.payload(p.Buf[:n])
	if err != nil || !ok || len(chunk) != n {
		return false
	}
	if n > 0 && &chunk[0] != &p.Buf[0] {
		kernel.Copy(p.Buf[:n], chunk, false)
	}
	r.in.Release()
	p.Buf = p.Buf[:n]
	if p.Got != nil {
		p.Got.add(r.inbox.peer, id)
	}
	return true
}
