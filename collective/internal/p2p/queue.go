// Package p2p sends and receives messages between two ranks of a communicator, and looks for them. A Queue moves them
// as far as they can go when it is polled; it does not wait.
package p2p

import (
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
	Closing          bool        // whether this rank sends the messages that it keeps, and then closes

	calls          *mismatch.Calls
	ep             transport.Endpoint
	rank, size     int
	lane           int    // the lane of the links, -1 without links
	reach          []bool // by rank: whether it and this rank can read each other's own memory
	slotBytes      int    // the size of a slot of a link
	lendFrom       int64  // the size from which on memory of this rank is lent to ranks that can read it
	oversubscribed bool   // whether ranks share cores

	under       messages // the messages under way
	backgrounds backgrounds
	peers       []peer      // by rank; nil before the first message
	busy        []bool      // scratch of one poll, by rank: an earlier Send to it waits
	dry         []bool      // scratch of one poll, by rank: no more is read from it
	more        bool        // scratch of one poll: a Receive may have more to read
	head        call.Header // scratch of one chunk: of its message
	steps       uint64      // the steps taken so far, which show whether anything moves
	looked      int         // the rank of which a message from any has come last
	kept        int         // the bytes that kept Sends take
	lost        *Got        // the first kept Send whose receiver has left; From is the receiver
	taking      bool        // whether messages are taken in that no Receive waits for
}

// New returns the Queue of a rank, whose end of links ep is and whose calls are given. Messages travel on a lane of the
// layout, -1: there are none. reach are the ranks, by number, that can read the memory of this one, and it theirs: from
// lendFrom bytes on messages are lent to them. oversubscribed means that ranks share cores.
func New(ep transport.Endpoint, rank int, calls *mismatch.Calls, lane int, reach []bool, lendFrom int64,
	oversubscribed bool) *Queue {
	if oversubscribed {
		lendFrom = max(lendFrom, LentOversubscribed)
	}
	return &Queue{calls: calls, ep: ep, rank: rank, size: len(reach), lane: lane, reach: reach,
		slotBytes: ep.MaxPayload(), lendFrom: lendFrom, oversubscribed: oversubscribed}
}

// Active reports whether Poll has anything to do.
func (q *Queue) Active() bool {
	return q.under.first != nil || q.backgrounds.active() || q.WaitedBackground != nil
}

// Idle reports whether no message is under way, and this rank does not wait for a Background.
func (q *Queue) Idle() bool { return q.under.first == nil && q.WaitedBackground == nil }

// Settled reports whether no message that the caller has begun is under way: kept messages are not the caller's.
func (q *Queue) Settled() bool { return !q.under.any(func(p *Message) bool { return !p.Done() }) }

// open opens this rank's end of a link with a peer, and has room for messages to and from all.
func (q *Queue) open(r int, send bool) (err error) {
	if q.peers == nil {
		q.peers, q.busy, q.dry = make([]peer, q.size), make([]bool, q.size), make([]bool, q.size)
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

// Start begins message p, a Send or a Receive, which Poll moves. Precondition: there is a lane for messages. An error
// is for transport.CallFault.
func (q *Queue) Start(p *Message, send bool) error {
	p.send, p.probe, p.moved, p.done, p.had, p.next = send, false, 0, false, 0, nil
	p.kept, p.behind = false, nil
	p.lends = send && !p.eager() && q.reach[p.Peer] && int64(len(p.Buf)) >= q.lendFrom
	if err := q.Open(p); err != nil {
		return err
	}
	if !send {
		if err := q.post(p); err != nil {
			return err
		}
	} else if p.Peer == q.rank {
		box := &q.peers[p.Peer].inbox
		target, err := box.place(p.id(), len(p.Buf))
		if err != nil {
			return err
		}
		copy(target, p.Buf)
		box.arrived()
		p.done = true
	}
	q.under.push(p)
	return nil
}

// post posts a Receive: the messages that have come are looked at first, those of several ranks in turn.
func (q *Queue) post(p *Message) error {
	if p.Peer != AnySource {
		return q.peers[p.Peer].inbox.post(p)
	}
	for i := range q.peers {
		if r := (q.looked + 1 + i) % q.size; q.peers[r].inbox.find(p.Tag) >= 0 {
			q.looked = r
			return q.peers[r].inbox.post(p)
		}
	}
	for r := range q.peers {
		box := &q.peers[r].inbox
		box.posted = append(box.posted, p)
	}
	return nil
}

// Poll moves all messages as far as they can go now, each by one lent chunk at a time: other ranks wait for this rank
// to lend, which it does not do while it reads their lent memory. It reports whether any moved.
func (q *Queue) Poll() (moved bool, err error) {
	steps := q.steps
	for more := true; more && err == nil && q.under.first != nil; {
		q.more = false
		err = q.pass()
		more = q.more
	}
	if err == nil && (q.backgrounds.active() || q.WaitedBackground != nil) {
		err = q.moveBackgrounds()
	}
	return q.steps != steps, err
}

// pass lets each message move once.
func (q *Queue) pass() (err error) {
	clear(q.busy)
	clear(q.dry)
	for p := q.under.first; p != nil && err == nil; p = p.next {
		switch {
		case p.probe:
			err = q.from(p)
		case p.Peer == q.rank: // its Send does all
		case p.send:
			err = q.peers[p.Peer].send(p)
		case p.Peer != AnySource: // the same as the default, but quicker
			err = p.ignoreClosed(q.peers[p.Peer].receive())
		default:
			err = q.from(p)
		}
	}
	q.under.removeDone()
	return err
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
