package devices

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Ranks of a host record their messages for each other at the end of their block: for every other one a log of the
// latest messages to it, and one of those from it; the numbers of both; and the number of received messages that were
// compared with the sender's notes.
const noteBytes = 2*call.SharedLogBytes + blockLine

// notes returns the notes of the i-th rank of the host about messages to and from the j-th.
func (b *block) notes(i, j int) notes {
	at := b.slotsAt(len(b.Given)) + (i*len(b.Given)+j)*noteBytes
	return words(b.Mem[at:][:noteBytes])
}

type notes []atomic.Uint64

// log has the messages that were sent, or received.
func (n notes) log(sent bool) call.SharedLog {
	if sent {
		return call.SharedLog(n[:call.SharedLogBytes/8])
	}
	return call.SharedLog(n[call.SharedLogBytes/8:][:call.SharedLogBytes/8])
}

// count is the number of these.
func (n notes) count(sent bool) *atomic.Uint64 {
	if sent {
		return &n[2*call.SharedLogBytes/8]
	}
	return &n[2*call.SharedLogBytes/8+1]
}

// same is the number of received messages that were compared.
func (n notes) same() *atomic.Uint64 { return &n[2*call.SharedLogBytes/8+2] }

// compareMessages compares the messages from rank r, the i-th of the host, with the notes of that rank. A difference is
// the communicator's fault. The caller holds mu.
func (d *Session) compareMessages(i, r int) (same bool) {
	mine, its := d.block.notes(d.mine, i), d.block.notes(i, d.mine)
	upTo := mine.same()
	for n := upTo.Load() + 1; n <= d.received[r]; n++ {
		theirs, ok := its.log(true).At(n)
		if !ok {
			break // it has still to send it
		}
		if own, _ := mine.log(false).At(n); own != theirs {
			d.links.Abort(d.c.Engine.Calls.Fault(r, theirs, own))
			return false
		}
		upTo.Store(n)
	}
	return true
}

// enter numbers and notes a message, before the other end can see anything of it.
func (d *Session) enter(m *Message, t kernel.DType, sends bool) pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := pending{peer: m.Peer, sends: sends, to: fmt.Sprintf(" from rank %d", m.Peer), lacks: "send it",
		id: call.ID{Kind: call.Message, Device: true, DType: t, Count: uint64(m.Count)}}
	if m.Peer == d.c.Rank {
		return p // no other rank takes part in it
	}
	number := &d.received[m.Peer]
	if sends {
		p.to, p.lacks, number = fmt.Sprintf(" to rank %d", m.Peer), "receive it", &d.sent[m.Peer]
	}
	*number++
	p.id.Seq = *number
	if i := slices.Index(d.local, m.Peer); i >= 0 {
		mine := d.block.notes(d.mine, i)
		mine.log(sends).Put(p.id)
		mine.count(sends).Store(p.id.Seq)
		if !sends {
			d.compareMessages(i, m.Peer)
		}
	}
	return p
}

// roomFor reports whether there is room in the notes for one more message, nil: none.
func (d *Session) roomFor(m *Message) bool {
	if m == nil {
		return true
	}
	i := slices.Index(d.local, m.Peer)
	return i < 0 || d.sent[m.Peer]-d.block.notes(i, d.mine).same().Load() < MaxCalls
}

// Message is a message that this rank sends to another one, or receives from it.
type Message struct {
	Buffer
	Peer int
}

// Exchange puts messages, either of which may be nil, behind the work of a stream, as Enter does with a call.
func (d *Session) Exchange(s *cuda.Stream, t kernel.DType, out, in *Message) error {
	var transfers [2]*device.Transfer
	for i, m := range []*Message{in, out} {
		if m == nil {
			continue
		}
		p := d.enter(m, t, i == 1)
		if err := d.begins(p); err != nil {
			return err
		}
		transfers[i] = &device.Transfer{Addr: m.Addr, Peer: m.Peer, Header: p.id.Header()}
	}
	if err := d.group.Exchange(s, t, transfers[1], transfers[0]); err != nil {
		return err
	}
	return d.entered(s)
}
