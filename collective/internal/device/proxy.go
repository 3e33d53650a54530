package device

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// proxy moves the payloads of network links between pinned memory and a
// transport: one goroutine sends, one receives.
type proxy struct {
	g    *Group
	out  queue
	in   queue
	ends []end // by link
}

// end is this rank's end of a network link.
type end struct {
	sender   transport.Sender
	receiver transport.Receiver
	peer     int
	queue    *queue    // its direction, nil where the link is another rank's
	ops      []proxyOp // under way, oldest first; the queue's mutex guards it
	done     uint32
	moved    atomic.Int64 // when the latest payload moved, in Unix nanoseconds
}

// proxyOp is the part of a call that moves over a link: each payloads per chunk.
type proxyOp struct {
	header call.Header
	span   plan.Span
	each   uint32
	first  uint32 // the number of payloads before it
}

// queue is one direction.
type queue struct {
	mu    sync.Mutex
	links []int // the links with an end in this direction
	wake  chan struct{}
}

// Mismatch reports that two ranks with a network link made different calls.
type Mismatch struct {
	Peer         int
	Theirs, Mine call.Header
}

// Error names the rank and both calls.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("device: rank %d sent a chunk of call %+v where one of call %+v belongs", m.Peer, m.Theirs, m.Mine)
}

// newProxy looks up the ends of this rank's network links; nil where there are none.
func newProxy(g *Group) (*proxy, error) {
	r := &proxy{g: g, ends: make([]end, len(g.links.states))}
	r.out.wake, r.in.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	for i := range g.cfg.Layout.links {
		k := &g.cfg.Layout.links[i]
		if k.location != Network {
			continue
		}
		e := &r.ends[i]
		e.done = g.cfg.First
		var err error
		switch g.rank {
		case k.Src:
			e.peer, e.queue = k.Dst, &r.out
			e.sender, err = g.cfg.Endpoint.Sender(k.Lane, k.Dst)
			r.out.links = append(r.out.links, i)
		case k.Dst:
			e.peer, e.queue = k.Src, &r.in
			e.receiver, err = g.cfg.Endpoint.Receiver(k.Lane, k.Src)
			r.in.links = append(r.in.links, i)
		}
		if err != nil {
			return nil, fmt.Errorf("network link of lane %d with rank %d: %w", k.Lane, e.peer, err)
		}
	}
	if len(r.out.links)+len(r.in.links) == 0 {
		return nil, nil
	}
	return r, nil
}

// start begins to move payloads. The goroutines end when the Group is closed or fails.
func (r *proxy) start() {
	r.g.workers.Go(func() { r.serve(&r.out, r.send) })
	r.g.workers.Go(func() { r.serve(&r.in, r.receive) })
}

// expect passes the next operation to the goroutine of link.
func (r *proxy) expect(link int, j proxyOp) {
	e := &r.ends[link]
	if e.queue == nil {
		return
	}
	e.queue.mu.Lock()
	e.ops = append(e.ops, j)
	e.queue.mu.Unlock()
	wake(e.queue.wake)
}

// wake sends a signal to the goroutine that receives from c, unless one waits there already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wakeUp lets both goroutines look for work.
func (r *proxy) wakeUp() {
	wake(r.out.wake)
	wake(r.in.wake)
}

// serve moves payloads with move, one of a link at a time. It polls while something is under way, and else sleeps.
func (r *proxy) serve(q *queue, move func(link int, j *proxyOp) (bool, error)) {
	idle := backoff.Wait{Max: 500 * time.Microsecond}
	for r.g.Err() == nil {
		busy, moved := false, false
		for _, link := range q.links {
			due, ok, err := r.one(q, link, move)
			if err != nil {
				r.g.failed(&LinkError{Rank: r.g.rank, Peer: r.ends[link].peer, Err: err})
				return
			}
			busy, moved = busy || due, moved || ok
		}
		switch f, ok := r.g.cfg.Endpoint.Aborted(); {
		case moved:
			idle.Moved()
		case ok && busy:
			r.g.failed(&EndpointFault{f})
			return
		case busy:
			idle.Pause()
		default:
			select {
			case <-q.wake:
			case <-r.g.done:
				return
			}
			idle.Moved()
		}
	}
}

// LinkError reports that a network link has failed, and the cause: the error of the Endpoint, or a *Mismatch.
type LinkError struct {
	Rank, Peer int
	Err        error
}

// Error names both ranks.
func (e *LinkError) Error() string {
	return fmt.Sprintf("device: rank %d: network link with rank %d: %v", e.Rank, e.Peer, e.Err)
}

// Unwrap returns the reason.
func (e *LinkError) Unwrap() error { return e.Err }

// EndpointFault is the fault of Config.Endpoint, which another rank may have
// reported.
type EndpointFault struct{ transport.Fault }

// Error returns the fault's text.
func (f *EndpointFault) Error() string { return "device: " + f.Text }

// one moves a payload of link, if one is due and can be.
func (r *proxy) one(q *queue, link int, move func(link int, j *proxyOp) (bool, error)) (due, moved bool, err error) {
	e := &r.ends[link]
	q.mu.Lock()
	if len(e.ops) == 0 {
		q.mu.Unlock()
		return false, false, nil
	}
	j := e.ops[0]
	q.mu.Unlock()
	if moved, err = move(link, &j); !moved {
		return true, false, err
	}
	e.moved.Store(time.Now().UnixNano())
	if e.done++; e.done-j.first == j.each*uint32(j.span.Chunks) {
		q.mu.Lock()
		e.ops = append(e.ops[:0], e.ops[1:]...)
		q.mu.Unlock()
	}
	return true, true, nil
}

// window returns the pinned slot of the next payload of link, cut to its length.
func (r *proxy) window(link int, j *proxyOp) []byte {
	e := &r.ends[link]
	_, n := j.span.Chunk(int((e.done - j.first) / j.each))
	size := r.g.cfg.Layout.bytesOf(&r.g.cfg.Layout.links[link])
	slot := int(e.done % uint32(r.g.cfg.Layout.Slots))
	return r.g.links.states[link].pinned[slot*size:][:max(n, 0)]
}

// send commits a payload that the device has published.
func (r *proxy) send(link int, j *proxyOp) (bool, error) {
	e := &r.ends[link]
	if !r.g.links.reached(link, published, e.done+1) {
		return false, nil
	}
	from := r.window(link, j)
	to, ok, err := e.sender.TryReserve(len(from))
	if err != nil || !ok {
		return false, err
	}
	copy(to, from)
	if err := r.g.Err(); err != nil {
		return false, err // the published payload may be void
	}
	e.sender.Commit(&j.header)
	host, _ := r.g.links.flag(link, released)
	host.Store(e.done + 1)
	return true, nil
}

// receive publishes a payload of the transport to the device, once there is room.
func (r *proxy) receive(link int, j *proxyOp) (bool, error) {
	e := &r.ends[link]
	slots := uint32(r.g.cfg.Layout.Slots)
	if !r.g.links.reached(link, released, e.done+1-slots) {
		return false, nil
	}
	var h call.Header
	from, ok, err := e.receiver.TryPeek(&h)
	if err != nil || !ok {
		return false, err
	}
	if h != j.header {
		return false, &Mismatch{Peer: e.peer, Theirs: h, Mine: j.header}
	}
	to := r.window(link, j)
	if len(from) != len(to) {
		return false, fmt.Errorf("a chunk of %d bytes where %d belong", len(from), len(to))
	}
	copy(to, from)
	e.receiver.Release()
	host, _ := r.g.links.flag(link, published)
	host.Store(e.done + 1)
	return true, nil
}
