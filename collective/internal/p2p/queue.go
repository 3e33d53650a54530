// Package p2p sends and receives messages between two ranks of a communicator, and looks for them. A Queue moves them
// as far as they can go when it is polled; it does not wait.
package p2p

import (
	"errors"

	"github.com/treerun/treerun/collective/internal/mismatch"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Queue holds the messages of one rank: those under way, those that have come and wait for their Receives, and the
// Sends that are kept for their receivers. Messages to one peer are sent in the order of Start. One goroutine at a time
// may use a Queue, except where documented otherwise.
type Queue struct {
	Waited           *Message    // the message that this rank waits for; nil: it waits for a call, or for nothing
	WaitedBackground *Background // the Background that this rank waits for, if it does
	Probe            *Message    // the Probe that waits among the messages, until it is done; nil without one
	Closing          bool        // whether this rank sends the messages that it keeps, and then closes

	calls          *mismatch.Calls
	ep             transport.Endpoint
	rank, size     int
	lane           int    // the lane of the links, -1 without links
	reach          []bool // by rank: whether it and this rank can read each other's own memory
	slotBytes      int    // the size of a slot of a link
	lendFrom       int64  // the size from which on memory of this rank is lent to ranks that can read it,
	lendBelow      int64  // and below which
	oversubscribed bool   // whether ranks share cores

	peers       []peer  // by rank; nil before the first message
	active      []*peer // those with messages under way, and perhaps some whose messages are done
	receives    int     // the Receives under way
	any         int     // those of them that are for a message from any rank, which has not come
	backgrounds backgrounds
	more        bool        // scratch of one poll: a Receive may have more to read
	head        call.Header // scratch of one chunk: of its message
	steps       uint64      // the steps taken so far, which show whether anything moves
	looked      int         // the rank of which a message from any has come last
	kept        int         // the bytes that kept Sends take
	lost        *lost       // the first kept Send whose receiver has left
	starting    bool        // whether a Receive begins: large messages are left to the next poll
	taking      bool        // whether messages are taken in that no Receive waits for
}

// New returns the Queue of a rank, whose end of links ep is and whose calls are given. Messages travel on a lane of the
// layout, -1: there are none. reach are the ranks, by number, that can read the memory of this one, and it theirs: from
// lendFrom bytes on, and below lendBelow, messages are lent to them. oversubscribed means that ranks share cores.
func New(ep transport.Endpoint, rank int, calls *mismatch.Calls, lane int, reach []bool, lendFrom, lendBelow int64,
	oversubscribed bool) *Queue {
	if oversubscribed {
		lendFrom = max(lendFrom, LentOversubscribed)
	}
	return &Queue{calls: calls, ep: ep, rank: rank, size: len(reach), lane: lane, reach: reach,
		slotBytes: ep.MaxPayload(), lendFrom: lendFrom, lendBelow: lendBelow, oversubscribed: oversubscribed}
}

// Active reports whether Poll has anything to do.
func (q *Queue) Active() bool {
	return !q.Idle() || q.backgrounds.active()
}

// Idle reports whether no message is under way, and this rank does not wait for a Background.
func (q *Queue) Idle() bool {
	return len(q.active) == 0 && q.any == 0 && q.Probe == nil && q.WaitedBackground == nil
}

// Settled reports whether no message that the caller has begun is under way: kept messages are not the caller's.
func (q *Queue) Settled() bool { return q.receives == 0 && q.Probe == nil && !q.sends() }

// sends reports whether a Send of the caller's is under way.
func (q *Queue) sends() bool {
	for _, r := range q.active {
		for p := r.sends.first; p != nil; p = p.next {
			if !p.Done() {
				return true
			}
		}
	}
	return false
}

// open opens this rank's end of a link with a peer, and has room for messages to and from all.
func (q *Queue) open(r int, send bool) (err error) {
	if q.peers == nil {
		q.peers, q.active = make([]peer, q.size), make([]*peer, 0, q.size)
		for i := range q.peers {
			q.peers[i] = peer{q: q, inbox: inbox{peer: i, self: q.rank, all: q.peers}}
		}
	}
	switch p := &q.peers[r]; {
	case r == q.rank:
	case send && p.out == nil:
		q.ep.Sends()
		p.out, err = q.ep.Sender(q.lane, r)
	case !send && p.in == nil:
		p.in, err = q.ep.Receiver(q.lane, r)
		if q.reach[r] && err == nil {
			p.lent = p.in.(transport.LentReceiver)
		}
	}
	return err
}

// Open opens this rank's ends of the links that p may need.
func (q *Queue) Open(p *Message) error {
	if p.Peer != AnySource {
		return q.open(p.Peer, p.send)
	}
	for r := range q.size {
		if err := q.open(r, p.send); err != nil {
			return err
		}
	}
	return nil
}

// Start begins message p, a Send or a Receive, which Poll moves. A Send begins to move, and small messages for
// a Receive. Precondition: there is a lane for messages. An error is for transport.CallFault.
func (q *Queue) Start(p *Message, send bool) error {
	p.send, p.probe, p.moved, p.done, p.had, p.next = send, false, 0, false, 0, nil
	p.kept, p.behind = false, nil
	bytes := int64(len(p.Buf))
	p.lends = send && !p.eager() && q.reach[p.Peer] && bytes >= q.lendFrom && bytes < q.lendBelow
	if err := q.Open(p); err != nil {
		return err
	}
	switch {
	case !send:
		if err := q.post(p); err != nil || p.any || p.done {
			return err
		}
		return q.peers[p.Peer].receiveEager()
	case p.Peer == q.rank:
		r := &q.peers[p.Peer]
		target, err := r.place(p.id(), len(p.Buf))
		if err != nil {
			return err
		}
		copy(target, p.Buf)
		p.end()
		return r.arrived()
	default:
		r := &q.peers[p.Peer]
		r.sends.push(p)
		r.activate()
		return r.sendAll()
	}
}

// post posts a Receive: the messages that have come are looked at first, those of several ranks in turn.
func (q *Queue) post(p *Message) error {
	for i := 0; p.Peer == AnySource && i < q.size; i++ {
		if r := (q.looked + 1 + i) % q.size; q.peers[r].inbox.find(p.Tag) >= 0 {
			q.looked, p.Peer = r, r
		}
	}
	q.receives++
	if p.any = p.Peer == AnySource; p.any {
		q.any++
		for r := range q.peers {
			box := &q.peers[r].inbox
			box.posted = append(box.posted, p)
		}
		return nil
	}
	r := &q.peers[p.Peer]
	r.receives++
	r.activate()
	err := r.inbox.post(p)
	if p.done {
		err = r.received(p)
	}
	return err
}

// Poll moves all messages as far as they can go now, each by one lent chunk at a time: other ranks wait for this rank
// to lend, which it does not do while it reads their lent memory. It reports whether any moved.
func (q *Queue) Poll() (moved bool, err error) {
	steps := q.steps
	for more := true; more && err == nil; {
		q.more = false
		err = q.pass()
		more = q.more
	}
	if err == nil && (q.backgrounds.active() || q.WaitedBackground != nil) {
		err = q.moveBackgrounds()
	}
	return q.steps != steps, err
}

// pass lets the messages to and from each rank move once: first those that this rank sends, as the other ranks can read
// its lent memory while it reads theirs.
func (q *Queue) pass() error {
	for _, r := range q.active {
		if err := r.sendAll(); err != nil {
			return err
		}
	}
	for i := 0; i < len(q.active); {
		r := q.active[i]
		if err := r.receive(); err != nil && (r.receives > 0 || !errors.Is(err, transport.ErrPeerClosed)) {
			return err
		}
		if r.active = r.sends.first != nil || r.receives > 0; r.active {
			i++
			continue
		}
		last := len(q.active) - 1
		q.active[i] = q.active[last]
		q.active = q.active[:last]
	}
	if q.any > 0 {
		if err := q.fromAny(nil); err != nil {
			return err
		}
	}
	return q.look()
}

// Move moves the messages of a rank that waits in no call, and takes in arrived messages: other ranks may wait for
// that.
func (q *Queue) Move() (moved bool, err error) {
	if moved, err = q.Poll(); err != nil {
		return moved, err
	}
	took, err := q.TakeIn()
	return moved || took, err
}

// CancelReceives ends all that could still write to memory of callers. A message that fails ends with it.
func (q *Queue) CancelReceives() {
	for i := range q.peers {
		if in := q.peers[i].in; in != nil {
			in.CancelReceive()
		}
	}
}
