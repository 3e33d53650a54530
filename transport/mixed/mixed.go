// Package mixed is not for users: it makes one transport.Endpoint out of two: one for the
// ranks of this host and one for the others.
//
// A link belongs to one of the two by the host of the rank at its other end. A
// rank sleeps on the bell of the local one and on the descriptor of the remote
// one at the same time. Both have a board: what is published goes to both, and
// what is known of a rank comes from the one that reaches it.
//
// The first fault is elected once, by the remote endpoints: what a rank reports is
// a proposal of its host, which those with connections pass on, and what is decided
// they tell their host. Aborted does both, and its owner calls it now and then when
// no call of its does.
//
// It moves no bytes itself: the ends of links are those of the two. A step posts on several
// links and ends with one Commit or Release, whose fence is for all of them, on both sides: a
// fence orders what a goroutine does, wherever it is. Package collective imports it.
package mixed

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
	"github.com/treerun/treerun/transport/tcp"
)

// local has the name under which Endpoint embeds it.
type local = shm.Endpoint

// Endpoint implements transport.Endpoint over two.
type Endpoint struct {
	rank   int
	hosts  []int
	*local // answers where ranks of this host are concerned, and no others
	remote *tcp.Endpoint
	bell   bell

	closed   atomic.Bool
	once     sync.Once
	closeErr error
}

// New joins the endpoints of a rank, of which the local one has a Doorbell. hosts holds
// the host of every rank. Both endpoints are then the new one's, which closes them.
func New(rank int, hosts []int, local *shm.Endpoint, remote *tcp.Endpoint) *Endpoint {
	return &Endpoint{
		rank: rank, hosts: hosts, local: local, remote: remote,
		bell: bell{local: local.Bell().(*shm.Doorbell), remote: remote},
	}
}

// of returns the endpoint that reaches rank r.
func (e *Endpoint) of(r int) transport.Endpoint {
	if e.hosts[r] == e.hosts[e.rank] {
		return e.local
	}
	return e.remote
}

// Sender returns the sending end of a link.
func (e *Endpoint) Sender(lane, dst int) (transport.Sender, error) {
	if dst < 0 || dst >= len(e.hosts) {
		return nil, transport.NoLink(lane, e.rank, dst)
	}
	return e.of(dst).Sender(lane, dst)
}

// Receiver returns the receiving end of a link.
func (e *Endpoint) Receiver(lane, src int) (transport.Receiver, error) {
	if src < 0 || src >= len(e.hosts) {
		return nil, transport.NoLink(lane, src, e.rank)
	}
	return e.of(src).Receiver(lane, src)
}

// Bell is this rank's bell.
func (e *Endpoint) Bell() transport.Bell { return &e.bell }

// Enter publishes the call that this rank begins.
func (e *Endpoint) Enter(h *transport.Header) {
	e.local.Enter(h)
	e.remote.Enter(h)
}

// Reaches reports whether this rank and rank r read each other's own memory: on this host they may.
func (e *Endpoint) Reaches(r int) (ok bool, why string) { return e.of(r).Reaches(r) }

// FlushStatus has all ranks hear of the latest call.
func (e *Endpoint) FlushStatus() {
	e.local.FlushStatus()
	e.remote.FlushStatus()
}

// Status returns what is known of rank r.
func (e *Endpoint) Status(r int) transport.Status { return e.of(r).Status(r) }

// CallBefore returns the call that rank r published back calls before its
// latest one.
func (e *Endpoint) CallBefore(r, back int) (transport.Header, bool) {
	return e.of(r).CallBefore(r, back)
}

// Abort reports f, and returns when the set has a fault.
func (e *Endpoint) Abort(f transport.Fault) {
	e.local.Abort(f)
	for _, ok := e.Aborted(); !ok && !e.closed.Load(); _, ok = e.Aborted() {
		time.Sleep(time.Millisecond)
	}
}

// Aborted returns the fault of the set. It passes on what the host's ranks report, and
// what is decided.
func (e *Endpoint) Aborted() (transport.Fault, bool) {
	if f, ok := e.local.Aborted(); ok {
		e.remote.Propose(f)
	}
	decided, ok := e.remote.Aborted()
	if ok {
		e.local.Decide(decided)
	}
	if first, ok := e.local.Decided(); ok {
		return first, true
	}
	return decided, ok // of a closed endpoint, to which nothing is written any more
}

// Close leaves both sides. Idempotent.
func (e *Endpoint) Close() error {
	e.once.Do(func() {
		e.closed.Store(true)
		e.Aborted() // passes the latest fault on
		e.closeErr = errors.Join(e.remote.Close(), e.local.Close())
	})
	return e.closeErr
}
