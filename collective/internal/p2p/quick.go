package p2p

import "github.com/treerun/treerun/internal/call"

// Quick does p, a Send or a Receive, as a whole if that takes one chunk and can be done now, and before that nothing
// else has to move: p is then done. If it reports false, p is for Start, which also finds what is wrong with it.
func (q *Queue) Quick(p *Message, send bool) bool {
	if q.peers == nil || p.Peer == q.rank || p.Peer == AnySource || p.Tag < 0 || !p.eager() && send {
		return false
	}
	r := &q.peers[p.Peer]
	done := send && r.sendNow(p) || !send && r.receiveNow(p)
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
	copy(window, p.Buf)
	h := &r.q.head
	*h = call.Header{Count: uint64(len(p.Buf) / p.DType.Size()), Kind: uint8(call.Message), DType: uint8(p.DType),
		Root: p.Tag}
	r.out.Commit(h)
	return true
}

// receiveNow receives p if its message is the next on the link. A payload of which a part has come by then continues
// to come to p.Buf after Start.
func (r *peer) receiveNow(p *Message) bool {
	b, h := &r.inbox, &r.q.head
	if r.in == nil || b.arriving != nil || b.find(p.Tag) >= 0 || b.wanted(p.Tag) >= 0 {
		return false
	}
	n, ok, err := r.head()
	size := p.DType.Size()
	switch {
	case err != nil || !ok || h.Kind != uint8(call.Message) || h.Op != 0 || h.Seq != 0 || h.Root != p.Tag:
		return false
	case h.DType != uint8(p.DType) || h.Count > uint64(n) || int(h.Count)*size != n || n > r.q.slotBytes:
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
		copy(p.Buf, chunk)
	}
	r.release()
	p.Buf = p.Buf[:n]
	if p.Got != nil {
		p.Got.From, p.Got.ID = r.inbox.peer, id
	}
	return true
}
