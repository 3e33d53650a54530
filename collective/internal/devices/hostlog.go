package devices

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// hostLog records the device calls of this rank, and compares them with those of the other ranks of its host. Calls
// return before anything has moved, so a rank may be many calls ahead of another one. Each records its latest calls
// where the other ranks of its host can read them, and compares them now and then with theirs of the same number.
// Between hosts the headers of chunks are compared. A difference is the communicator's fault.
type hostLog struct {
	c     *setup.Setup
	links Links
	block *block
	sent  []uint64 // by rank: messages to it; only calls and Close use it

	mu       sync.Mutex // guards the fields below
	noted    uint64     // the number of the latest call that is no message
	compared []uint64   // by rank of the host: the number of the first call that is not compared with its
	received []uint64   // by rank: messages from it; only calls change it, and Close reads it without mu
}

// note records a call, before other ranks can learn its number.
func (l *hostLog) note(id call.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.block.calls(l.block.mine).Put(id)
	l.noted = id.Seq
}

// abortOnMismatch compares all calls of this rank with those that the other ranks of its host have made, unless that
// was done. If they differ it aborts the communicator; it reports whether they are the same.
func (l *hostLog) abortOnMismatch() (same bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.block
	for i, r := range b.local {
		if i == b.mine {
			continue
		}
		latest := func() uint64 { return l.c.Endpoint.Status(r).Call.Seq }
		own, other, differ, next := b.calls(b.mine).Differs(b.calls(i), l.compared[i], l.noted, latest)
		if differ {
			l.links.Abort(l.c.Engine.Calls.Fault(r, other, own))
			return false
		}
		l.compared[i] = next
		if !l.compareMessages(i, r) {
			return false
		}
	}
	return true
}

// Ranks of a host record their messages for each other at the end of their block: for every other one a log of the
// latest messages to it, and one of those from it; the numbers of both; and the number of received messages that were
// compared with the sender's notes.
const noteBytes = 2*call.SharedLogBytes + blockLine

// notes returns the notes of the i-th rank of the host about messages to and from the j-th.
func (b *block) notes(i, j int) notes {
	at := b.slotsAt(len(b.SlotBytes)) + (i*len(b.SlotBytes)+j)*noteBytes
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

// number numbers and records a message, before the other end can see anything of it.
func (l *hostLog) number(m *Message, t kernel.DType, sends bool) pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := pending{peer: m.Peer, sends: sends, to: fmt.Sprintf(" from rank %d", m.Peer), lacks: "send it",
		id: call.ID{Kind: call.Message, Device: true, DType: t, Count: uint64(m.Count)}}
	if m.Peer == l.c.Rank {
		return p // no other rank takes part in it
	}
	number := &l.received[m.Peer]
	if sends {
		p.to, p.lacks, number = fmt.Sprintf(" to rank %d", m.Peer), "receive it", &l.sent[m.Peer]
	}
	*number++
	p.id.Seq = *number
	if i := slices.Index(l.block.local, m.Peer); i >= 0 {
		mine := l.block.notes(l.block.mine, i)
		mine.log(sends).Put(p.id)
		mine.count(sends).Store(p.id.Seq)
		if !sends {
			l.compareMessages(i, m.Peer)
		}
	}
	return p
}

// hasRoom reports whether one more message, nil for none, can be recorded.
func (l *hostLog) hasRoom(m *Message) bool {
	if m == nil {
		return true
	}
	i := slices.Index(l.block.local, m.Peer)
	return i < 0 || l.sent[m.Peer]-l.block.notes(i, l.block.mine).same().Load() < MaxCalls
}

// compareMessages compares the messages from rank r, the i-th of the host, with the notes of that rank. The caller
// holds mu.
func (l *hostLog) compareMessages(i, r int) (same bool) {
	mine, theirs := l.block.notes(l.block.mine, i), l.block.notes(i, l.block.mine)
	upTo := mine.same()
	for n := upTo.Load() + 1; n <= l.received[r]; n++ {
		other, ok := theirs.log(true).At(n)
		if !ok {
			break // it has still to send it
		}
		if own, _ := mine.log(false).At(n); own != other {
			l.links.Abort(l.c.Engine.Calls.Fault(r, other, own))
			return false
		}
		upTo.Store(n)
	}
	return true
}

// unreceived makes a message that a rank of this host has sent, and that this rank leaves, a fault: its sender would
// wait for it to be read.
func (l *hostLog) unreceived() {
	for i, r := range l.block.local {
		theirs := l.block.notes(i, l.block.mine)
		if n := l.received[r] + 1; theirs.count(true).Load() >= n {
			id, _ := theirs.log(true).At(n)
			l.links.Abort(transport.Faultf(transport.FaultClosed, l.c.Rank,
				"rank %d closed its communicator before it had received %v from rank %d", l.c.Rank, id, r))
		}
	}
}
