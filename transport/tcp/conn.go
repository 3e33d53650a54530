package tcp

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// errEnded is the error of a connection whose peer sends no more and has not announced that it closes.
var errEnded = errors.New("the connection ended")

// batchBytes is the largest number of bytes that one system call sends or receives.
const batchBytes = 1 << 20

// item is a data frame that waits to be sent: its beginning, and the rest of it
// where that lies elsewhere.
type item struct {
	from *sender
	buf  *buffer // of head and tail
	head []byte
	body []byte  // nil, in another sender's buffer, or memory that was lent
	loan *buffer // that other buffer
	tail []byte  // nil without body: it is in head then
	lent bool
}

func (t *item) bytes() int { return len(t.head) + len(t.body) + len(t.tail) }

// conn is one connection to a peer. Sending and receiving have a lock each, so that the rank's own goroutine and the
// pump take turns, in any order.
type conn struct {
	e    *Endpoint
	rank int // of the peer
	id   int // its number, for the poller
	wire wire
	fd   int    // -1 once closed
	name string // both addresses, for messages

	pending atomic.Bool // there are frames to send
	owes    atomic.Bool // there are released chunks to report
	blocked atomic.Bool // the socket had no room at the last attempt
	dead    atomic.Bool // no more frames will arrive
	late    atomic.Bool // the socket is still to come

	err    atomic.Pointer[error] // why the connection is no longer usable
	closed atomic.Bool           // the peer has announced that it closes

	wmu    sync.Mutex
	queue  []item // data frames, the oldest first; the first sent of them are sent
	sent   int
	off    int    // bytes of the oldest unsent frame that are sent
	ctl    []byte // control frames, which go first
	ctlOff int    // bytes of ctl that are sent
	owing  []*receiver
	room   bool // the poller watches for room
	out    osys.Vectors
	gone   bool // nothing more can be sent

	rmu sync.Mutex
	in  reader
	low int // bytes that must arrive before a wait for the socket ends; 0 means 1

	opening   sync.Mutex                  // held while a list of ends is replaced
	senders   atomic.Pointer[[]*sender]   // by lane; nil: not requested yet
	receivers atomic.Pointer[[]*receiver] // likewise; also made when the first chunk arrives

	round atomic.Uint32 // how often the socket was polled
	empty atomic.Uint32 // number of polls in a row that brought nothing
}

// enqueue puts a data frame behind those that wait. wmu is held.
func (c *conn) enqueue(t item) {
	if c.gone {
		t.done()
		return
	}
	if len(c.queue) == cap(c.queue) && c.sent > 0 {
		waiting := copy(c.queue, c.queue[c.sent:])
		clear(c.queue[waiting:])
		c.queue, c.sent = c.queue[:waiting], 0
	}
	c.queue = append(c.queue, t)
	c.pending.Store(true)
}

// done releases the memory of t.
func (t *item) done() {
	pool := &t.from.e.buffers
	pool.drop(t.buf)
	if t.loan != nil {
		pool.drop(t.loan)
	}
	if t.lent {
		t.from.lent.Add(-1)
	}
}

// flush sends waiting frames as far as there is room. It reports whether that freed anything that a sender may wait
// for.
func (c *conn) flush() bool {
	if !c.pending.Load() && !c.owes.Load() {
		return false
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return c.flushLocked()
}

func (c *conn) flushLocked() (news bool) {
	whole := true
	for !c.gone {
		c.gather()
		want := c.out.Bytes()
		n, err := 0, error(nil)
		if want > 0 {
			n, err = c.wire.send(&c.out)
		}
		if err == nil {
			whole, err = c.wire.push()
		}
		if err != nil && !errors.Is(err, osys.ErrAgain) {
			c.fail(fmt.Errorf("sending: %w", err))
			c.discard()
			return true
		}
		if n > 0 {
			news = c.taken(n) || news
		}
		c.blocked.Store(n < want || !whole)
		if n < want || !whole || want == 0 {
			break
		}
	}
	if c.room && !c.blocked.Load() {
		c.watchRoom(false)
	}
	c.out.Reset()
	c.pending.Store(!c.gone && (len(c.queue) > c.sent || len(c.ctl) > 0 || !whole))
	return news
}

// watchRoom changes whether the poller watches for room. wmu is held.
func (c *conn) watchRoom(room bool) {
	c.room = room
	if c.fd >= 0 && !c.dead.Load() {
		_ = osys.WatchRoom(c.e.bell.poller, c.fd, c.id, room)
	}
}

// awaitRoom has the poller watch for room if there was none.
func (c *conn) awaitRoom() {
	if !c.blocked.Load() {
		return
	}
	c.wmu.Lock()
	if c.blocked.Load() && !c.room && !c.gone {
		c.watchRoom(true)
	}
	c.wmu.Unlock()
}

// gather fills c.out with the next bytes to send: the rest of a partly sent data frame, then control frames, then data
// frames.
func (c *conn) gather() {
	c.out.Reset()
	c.tellReleased()
	i := c.sent
	if c.off > 0 {
		c.gatherItem(&c.queue[i], c.off)
		i++
	}
	c.out.Add(c.ctl[c.ctlOff:])
	for ; i < len(c.queue) && c.out.Room() >= 3 && c.out.Bytes() < batchBytes; i++ {
		c.gatherItem(&c.queue[i], 0)
	}
}

func (c *conn) gatherItem(t *item, off int) {
	for _, part := range [...][]byte{t.head, t.body, t.tail} {
		if off < len(part) {
			c.out.Add(part[off:])
		}
		off = max(0, off-len(part))
	}
}

// tellReleased appends a credit frame for every link that has released chunks.
func (c *conn) tellReleased() {
	if !c.owes.Load() {
		return
	}
	c.owes.Store(false)
	for i, r := range c.owing {
		r.told = r.released.Load()
		r.owed = false
		c.ctl = appendCredit(c.ctl, uint32(r.link.Lane), r.told)
		c.owing[i] = nil
	}
	c.owing = c.owing[:0]
}

// taken removes n sent bytes from those that gather has collected.
func (c *conn) taken(n int) (news bool) {
	if c.off > 0 {
		n, news = c.takenItem(n)
	}
	m := min(n, len(c.ctl)-c.ctlOff)
	if c.ctlOff += m; c.ctlOff == len(c.ctl) {
		c.ctl, c.ctlOff = c.ctl[:0], 0
	}
	for n -= m; n > 0; {
		var whole bool
		n, whole = c.takenItem(n)
		news = news || whole
	}
	return news
}

// takenItem removes up to n bytes of the oldest data frame, and returns how
// many of them are left, and whether the frame is sent.
func (c *conn) takenItem(n int) (left int, whole bool) {
	t := &c.queue[c.sent]
	rest := t.bytes() - c.off
	if n < rest {
		c.off += n
		return 0, false
	}
	t.done()
	*t = item{}
	if c.sent++; c.sent == len(c.queue) {
		c.queue, c.sent = c.queue[:0], 0
	}
	c.off = 0
	return n - rest, true
}

// discard drops all frames that wait to be sent: the peer will not read them. wmu is held.
func (c *conn) discard() {
	c.gone = true
	c.blocked.Store(false)
	c.out.Reset()
	for i := range c.queue[c.sent:] {
		c.queue[c.sent+i].done()
	}
	c.queue, c.sent, c.off, c.ctl, c.ctlOff = nil, 0, 0, nil, 0
	c.owing = nil
	c.owes.Store(false)
	c.pending.Store(false)
}

// control puts a control frame before the data frames that wait, and sends as much as there is room for.
func (c *conn) control(k kind, body []byte) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.gone || c.absent() { // a connection that comes late begins with all news
		return
	}
	c.ctl = appendControl(c.ctl, k, body)
	c.pending.Store(true)
	c.flushLocked()
}

// fail makes err the reason why the connection is no longer usable, unless it has one already or the peer has announced
// that it closes. It never blocks.
func (c *conn) fail(err error) {
	if !c.closed.Load() {
		err = fmt.Errorf("connection %s: %w", c.name, netconn.Stalled(netconn.JumboSocket(c.fd), err))
		c.err.CompareAndSwap(nil, &err)
	}
	c.e.pump.kick()
}

// broken returns the error of a connection on which the peer violated the protocol.
func (c *conn) broken() error {
	if p := c.err.Load(); p != nil && errors.Is(*p, transport.ErrCorrupt) {
		return *p
	}
	return nil
}

// close closes the descriptor.
func (c *conn) close() error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.rmu.Lock() // a holder of rmu never waits for wmu
	defer c.rmu.Unlock()
	c.discard()
	c.dead.Store(true)
	if c.fd < 0 {
		return nil
	}
	err := osys.CloseFD(c.fd)
	c.fd = -1
	return err
}
