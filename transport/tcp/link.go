package tcp

import (
	"fmt"
	"sync/atomic"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// A link has its slots for chunks of full size. Of shorter ones it takes more, up to manyChunks, if they have no more
// bytes than all slots but one: ranks that share a core hand it over once for many calls in a row.
const (
	manyChunks = 64
	shortChunk = 1 << 10
)

// chunksOf returns the number of chunks that may be under way on a link, a power of two.
func chunksOf(l *transport.Layout) int {
	n := l.Slots
	for n < manyChunks && 2*n*shortChunk <= l.Slots*l.SlotBytes {
		n *= 2
	}
	return n
}

// end is the common part of both ends of a link.
type end struct {
	e     *Endpoint
	peer  *peer
	link  transport.Link
	mask  uint32 // number of chunks that may be under way - 1
	round uint32 // of the peer, in which this link last polled the sockets
}

// endError returns the error of a link on which nothing can happen any more, nil where there is none or where the set
// has a fault, which Aborted returns.
func (d *end) endError() error {
	if d.e.closed.Load() {
		return d.failure(transport.ErrClosed)
	}
	if err := d.peer.conn.broken(); err != nil {
		return d.failure(err)
	}
	if !d.peer.closed.Load() {
		return nil
	}
	if _, aborted := d.e.Aborted(); aborted {
		return nil
	}
	return d.failure(transport.ErrPeerClosed)
}

// failure adds the link to err.
func (d *end) failure(err error) error {
	return fmt.Errorf("lane %d, rank %d%s -> rank %d%s: %w", d.link.Lane, d.link.Src, d.e.on(d.link.Src), d.link.Dst,
		d.e.on(d.link.Dst), err)
}

// poll reads the socket of the peer, unless another link has just done so.
func (d *end) poll() { d.peer.conn.poll(&d.round, d.e) }

// sender implements transport.Sender. A slot is taken until the receiver has
// released it; the memory of its chunk is in use only until it is sent.
type sender struct {
	end
	pos      atomic.Uint32 // of the next chunk; written by the owner
	released atomic.Uint32 // chunks that the receiver has released
	lent     atomic.Int32  // frames that wait with memory of a caller
	buf      *buffer       // of the next chunk; nil before it is requested
	n        int           // bytes reserved; -1: none

	sizes   []int32 // of the chunks from counted to pos, by position
	counted uint32  // chunks whose bytes are not in held any more
	held    int     // bytes of those that are
}

// TryReserve returns the window of the next free slot.
func (s *sender) TryReserve(n int) ([]byte, bool, error) {
	if uint(n) > uint(s.e.cfg.Layout.SlotBytes) {
		return nil, false, s.failure(fmt.Errorf("payload of %d bytes, slots hold %d", n, s.e.cfg.Layout.SlotBytes))
	}
	if !s.free() || s.e.closed.Load() {
		if s.poll(); !s.free() || s.e.closed.Load() {
			return nil, false, s.endError()
		}
	}
	if s.buf == nil {
		s.buf = s.e.buffers.take()
	}
	s.n = n
	return s.buf.window(n), true, nil
}

// free reports whether there is room for a chunk.
func (s *sender) free() bool {
	l := &s.e.cfg.Layout
	for released := s.released.Load(); s.counted != released; s.counted++ {
		s.held -= int(s.sizes[s.counted&s.mask])
	}
	return s.pos.Load()-s.counted <= s.mask && s.held <= (l.Slots-1)*l.SlotBytes
}

// post makes a data frame of the next slot and puts it into the queue of a connection, whose wmu it leaves locked. The
// payload is body, which is in loan unless that is nil, or n bytes of the slot's own if body is nil.
func (s *sender) post(h *call.Header, n int, body []byte, loan *buffer) *conn {
	if body != nil {
		n = len(body)
	}
	pos := s.pos.Load()
	t := item{from: s, buf: s.buf, body: body, loan: loan, lent: body != nil && loan == nil}
	t.head = s.buf.mem[frontBytes-dataBytes : frontBytes+n+tailBytes]
	putTail(t.head[dataBytes+n:], uint32(s.link.Lane), pos)
	if body != nil {
		t.head, t.tail = t.head[:dataBytes], t.head[dataBytes+n:]
	}
	b := base{set: s.e.number, kind: kindData, more: callBytes + n + tailBytes, link: uint32(s.link.Lane), pos: pos}
	b.put(t.head)
	putCall(t.head[baseBytes:], h)
	s.n, s.buf = -1, nil
	s.sizes[pos&s.mask] = int32(n)
	s.held += n
	if t.lent {
		s.lent.Add(1)
	}
	c := s.peer.conn
	c.wmu.Lock()
	s.pos.Store(pos + 1)
	c.enqueue(t)
	return c
}

// Commit sends the reserved window, and everything that was posted before. The store of pos is its fence.
func (s *sender) Commit(h *call.Header) {
	s.mustReserve("Commit")
	c := s.post(h, s.n, nil, nil)
	c.flushUnlessBlocked(s.e)
	c.wmu.Unlock()
}

// Wake sends all posted frames.
func (s *sender) Wake() { s.peer.conn.flushPosted(s.e) }

// Reserved returns the window that is reserved.
func (s *sender) Reserved() []byte {
	s.mustReserve("Reserved")
	return s.buf.window(s.n)
}

// Share sends the window that lender has reserved.
func (s *sender) Share(h *call.Header, lender transport.Sender) {
	s.mustReserve("Share")
	window := lender.Reserved()
	from, same := lender.(*sender)
	if !same || len(window) <= copyUpTo {
		s.postCopy(h, window)
		return
	}
	from.buf.uses.Add(1)
	s.post(h, 0, window, from.buf).wmu.Unlock()
}

// postCopy posts a copy of a payload, which is sent with later frames.
func (s *sender) postCopy(h *call.Header, payload []byte) {
	n := copy(s.buf.window(len(payload)), payload)
	s.post(h, n, nil, nil).wmu.Unlock()
}

// copyUpTo is the size of a payload, in bytes, up to which it is copied rather
// than sent from where it lies: one piece of memory is sent faster than two.
const copyUpTo = 1 << 10

// Lend sends window from where it lies.
func (s *sender) Lend(h *call.Header, window []byte, _ bool) {
	s.mustReserve("Lend")
	if len(window) > s.e.cfg.Layout.SlotBytes {
		panic(fmt.Sprintf("tcp: Lend of %d bytes, slots hold %d", len(window), s.e.cfg.Layout.SlotBytes))
	}
	if len(window) <= copyUpTo {
		s.postCopy(h, window)
		return
	}
	s.post(h, 0, window, nil).wmu.Unlock()
}

// LendsAny reports that any memory can be sent from where it lies.
func (s *sender) LendsAny() bool { return true }

// Help does nothing: no receiver can name memory of its own to this rank.
func (s *sender) Help(bool) (bool, error) { return false, nil }

// Returned reports whether all lent memory is with the kernel.
func (s *sender) Returned() bool {
	if s.lent.Load() == 0 {
		return true
	}
	s.poll()
	return s.lent.Load() == 0
}

func (s *sender) mustReserve(what string) {
	if s.n < 0 {
		panic("tcp: " + what + " without a reserved slot")
	}
}

// credit notes that the receiver has released chunks up to position upTo.
func (s *sender) credit(upTo uint32) error {
	old := s.released.Load()
	if upTo-old > s.pos.Load()-old {
		return fmt.Errorf("%w: released %d chunks of %d sent", transport.ErrCorrupt, upTo, s.pos.Load())
	}
	s.released.Store(upTo)
	return nil
}

// receiver implements transport.Receiver.
type receiver struct {
	end
	slots    []arrival
	pos      uint32        // of the oldest unread chunk
	place    place         // for chunks from pos on
	released atomic.Uint32 // the same, for goroutines that report it to the sender
	peeked   bool

	reported uint32 // how many releases the sender knows of; guarded by wmu of the connection
	news     int    // bytes of the others; guarded by wmu
	owed     bool   // it is in the owing list of that connection; guarded by wmu
}

// arrival is a slot of a receiver.
type arrival struct {
	begun atomic.Uint32 // position + 1 of the latest chunk that began to arrive
	came  atomic.Uint32 // the same, when it is complete
	buf   *buffer       // where the chunk is, nil when it is placed
	place []byte        // memory of the caller that holds the chunk
	n     int           // bytes of the chunk
	head  call.Header
}

// TryPeek returns the oldest unread payload.
func (r *receiver) TryPeek(h *call.Header) ([]byte, bool, error) {
	a := &r.slots[r.pos&r.mask]
	if a.came.Load() != r.pos+1 {
		left := r.peer.closed.Load() // read first: chunks that were sent before are looked for afterwards
		if r.poll(); a.came.Load() != r.pos+1 {
			if !left && !r.e.closed.Load() && r.peer.conn.broken() == nil {
				return nil, false, nil
			}
			return nil, false, r.endError()
		}
	}
	*h = a.head
	r.peeked = true
	return a.window(), true, nil
}

// Release gives the slot back, and reports it to the sender soon. The store of released is its fence.
func (r *receiver) Release() {
	c := r.drop()
	if r.due() {
		c.flushUnlessBlocked(r.e)
	}
	c.wmu.Unlock()
}

// Drop gives the slot back. Later frames report it to the sender.
func (r *receiver) Drop() { r.drop().wmu.Unlock() }

// Wake reports released slots to the sender, if it may be waiting.
func (r *receiver) Wake() {
	c := r.peer.conn
	c.wmu.Lock()
	if r.owed && r.due() {
		c.flushUnlessBlocked(r.e)
	}
	c.wmu.Unlock()
}

// drop gives the slot back, and leaves wmu of the connection that will report it locked.
func (r *receiver) drop() *conn {
	if !r.peeked {
		panic("tcp: Release without a peeked slot")
	}
	r.peeked = false
	a := &r.slots[r.pos&r.mask]
	if a.buf != nil {
		r.e.buffers.drop(a.buf)
	}
	a.buf, a.place = nil, nil
	n := a.n // another chunk may arrive from now on
	if r.pos++; r.pos == r.place.end {
		r.place.set(0, nil, 0) // later chunks at these positions are not placed
	}
	r.released.Store(r.pos)
	c := r.peer.conn
	c.wmu.Lock()
	r.news += n
	if !r.owed && !c.discarded {
		r.owed = true
		c.outbox.owing = append(c.outbox.owing, r)
		c.owes.Store(true)
	}
	return c
}

// due reports whether the unreported released chunks are so many, or so long, that the sender may soon wait for them.
// If not, the next frame carries the report, or it is sent when this rank is idle.
func (r *receiver) due() bool {
	l := &r.e.cfg.Layout
	return 2*(r.pos-r.reported) > r.mask || 2*r.news >= l.Slots*l.SlotBytes
}
