package device

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// notes are what ranks of a host write down of their messages for each other: for every rank of the host a ring of the
// latest messages to it, and one of those from it; how many of each there are; and how many of the latter were
// compared with what the sender has noted.
type notes struct {
	endpoint transport.Endpoint
	own      []byte
	ranks    [][]atomic.Uint64 // by rank of the host
}

const noteBytes = 2*ringBytes + blockLine // of a rank for another

// alloc allocates those of this rank, and returns where the others find them.
func (n *notes) alloc(ep transport.Endpoint, ranks int) (place int, err error) {
	n.endpoint = ep
	if n.own, err = ep.Alloc(ranks * noteBytes); err != nil {
		return 0, fmt.Errorf("%d bytes for notes of messages: %w", ranks*noteBytes, err)
	}
	place, _ = ep.Offset(n.own)
	return place, nil
}

// view lets this rank see those of the next rank of the host, r.
func (n *notes) view(r, place, ranks int) error {
	mem, err := n.endpoint.View(r, place, ranks*noteBytes)
	if err == nil {
		n.ranks = append(n.ranks, words(mem))
	}
	return err
}

func (n *notes) free() error {
	if n.own == nil {
		return nil
	}
	return n.endpoint.Free(n.own)
}

// of returns what the i-th rank of the host has noted of messages to the j-th, or from it.
func (n *notes) of(i, j int, sent bool) callRing {
	from := j * noteBytes
	if !sent {
		from += ringBytes
	}
	return callRing(n.ranks[i][from/8:][:ringBytes/8])
}

// count is how many the i-th rank has noted of messages to the j-th, or from it.
func (n *notes) count(i, j int, sent bool) *atomic.Uint64 {
	at := (j*noteBytes + 2*ringBytes) / 8
	if !sent {
		at++
	}
	return &n.ranks[i][at]
}

// same is how many messages from the j-th rank the i-th has compared.
func (n *notes) same(i, j int) *atomic.Uint64 { return &n.ranks[i][(j*noteBytes+2*ringBytes)/8+2] }

// compareMessages compares the messages from rank r, the i-th of the host, with what that has noted of them. A
// difference is the communicator's fault. The caller holds mu.
func (d *Session) compareMessages(i, r int) (same bool) {
	upTo := d.notes.same(d.mine, i)
	for n := upTo.Load() + 1; n <= d.received[r]; n++ {
		theirs, ok := d.notes.of(i, d.mine, true).get(n)
		if !ok {
			break // it has still to send it
		}
		if mine, _ := d.notes.of(d.mine, i, false).get(n); mine != theirs {
			d.c.Abort(d.c.Engine.Mismatch(r, theirs, mine))
			return false
		}
		upTo.Store(n)
	}
	return true
}

// enter numbers and notes a message, before the other end can see anything of it.
func (d *Session) enter(m *Message, sends bool) pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := pending{peer: m.Peer, sends: sends, to: fmt.Sprintf(" from rank %d", m.Peer), lacks: "send it"}
	number := &d.received[m.Peer]
	if sends {
		p.to, p.lacks, number = fmt.Sprintf(" to rank %d", m.Peer), "receive it", &d.sent[m.Peer]
	}
	*number++
	m.Header.Seq = *number
	p.header = m.Header
	if i := slices.Index(d.local, m.Peer); i >= 0 {
		d.notes.of(d.mine, i, sends).put(&m.Header)
		d.notes.count(d.mine, i, sends).Store(m.Header.Seq)
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
	return i < 0 || d.sent[m.Peer]-d.notes.same(i, d.mine).Load() < MaxCalls
}

// Exchange puts messages, either of which may be nil, behind the work of a stream, as Enter does with a call. Their
// Headers have the Count.
func (d *Session) Exchange(s *cuda.Stream, t kernel.DType, out, in *Message) error {
	for i, m := range []*Message{in, out} {
		if m == nil {
			continue
		}
		if err := d.begins(d.enter(m, i == 1)); err != nil {
			return err
		}
	}
	if err := d.group.Exchange(s, t, out, in); err != nil {
		return err
	}
	return d.entered(s)
}
