package tcp

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/transport/internal/osys"
)

const (
	// aheadBytes is the room for frames that are read before they are parsed: many small frames arrive with one
	// system call, and of a large chunk no more than this is copied.
	aheadBytes = 4 << 10
	// peekBytes is the part of it that is used behind a large chunk: the beginning of the next frame and some small
	// ones.
	peekBytes = 256
)

// reader parses frames as they arrive. rmu of its connection is held.
type reader struct {
	ahead []byte    // aheadBytes of room
	r, w  int       // bytes that are read and not parsed
	into  *receiver // of the chunk that is being received, nil if none is
	slot  *arrival
	rest  []byte // of its payload
	skip  int    // bytes to come of a chunk that no endpoint waits for

	closed []uint64 // sets of such chunks
	list   osys.Vectors
}

// receive reads all available bytes, and reports whether they brought anything that a link of endpoint by may wait for.
// It wakes up the owners of other endpoints for which they did. It does nothing if another goroutine is receiving.
func (c *conn) receive(by *Endpoint) bool {
	if !c.rmu.TryLock() {
		return false
	}
	news := c.receiveLocked(by)
	c.rmu.Unlock() // not deferred: most calls find nothing
	return news
}

func (c *conn) receiveLocked(by *Endpoint) (news bool) {
	in := &c.in
	for total := 0; !c.dead.Load() && (total < batchBytes || c.wire.buffersInput()); {
		in.list.Reset()
		if len(in.rest) > 0 {
			in.list.Add(in.rest)
			in.list.Add(in.ahead[:peekBytes]) // empty while a payload is incomplete
		} else {
			in.list.Add(in.ahead[in.w:])
		}
		want := in.list.Bytes()
		n, err := c.wire.recv(&in.list)
		if errors.Is(err, osys.ErrAgain) {
			break
		}
		if err != nil || n == 0 {
			c.end(err)
			c.ring(by)
			return true
		}
		total += n
		fresh, err := in.parse(c, n, by)
		news = news || fresh
		if err != nil {
			c.stop(err)
			c.ring(by)
			return true
		}
		if n < want {
			break
		}
	}
	if c.low > 1 {
		c.await(false)
	}
	return news
}

// maxAwaited bounds the bytes that a socket holds back: far fewer than a peer may have under way, so that it keeps
// sending meanwhile.
const maxAwaited = 32 << 10

// await sets the number of bytes before which the socket wakes no waiter: the rest of a payload, or as much of it as
// allowed, since most of a payload arrives in pieces of a few kilobytes. It always lowers the number when fewer bytes
// are missing than before, and raises it only if raise is set, by a caller that is about to wait. rmu is held.
func (c *conn) await(raise bool) {
	want := 1
	if rest := len(c.in.rest); rest > 0 && !c.dead.Load() {
		want = min(rest+tailBytes, maxAwaited)
	}
	if _, shows := c.wire.(plain); !shows || c.fd < 0 || want == max(c.low, 1) || want > c.low && !raise {
		return
	}
	c.low = want
	osys.Await(c.fd, want)
}

// end handles that the peer sends no more: err is the cause, nil for an ordinary end.
func (c *conn) end(err error) {
	switch {
	case err != nil:
		c.stop(fmt.Errorf("receiving: %w", err))
	case c.in.into != nil || c.in.w > c.in.r || c.in.skip > 0:
		c.stop(fmt.Errorf("%w in the middle of a frame", errEnded))
	default:
		c.stop(errEnded)
	}
}

func (c *conn) stop(err error) {
	c.in.list.Reset()
	c.dead.Store(true)
	if c.fd >= 0 {
		_ = osys.Unwatch(c.n.poller, c.fd) // it would be ready forever
	}
	c.fail(err)
}

// parse parses n bytes that were received.
func (in *reader) parse(c *conn, n int, by *Endpoint) (news bool, err error) {
	if rest := len(in.rest); rest > 0 {
		m := min(n, rest)
		in.rest = in.rest[m:]
		if n -= m; m < rest {
			return false, nil
		}
	}
	in.w += n
	brought := func(e *Endpoint) {
		if news = news || e == by; e != by {
			e.bell.Ring()
		}
	}
	for {
		if in.into != nil {
			if len(in.rest) > 0 || in.w-in.r < tailBytes {
				break
			}
			to := in.into.e
			if err := in.arrived(); err != nil {
				return news, err
			}
			brought(to)
		}
		skipped := min(in.skip, in.w-in.r)
		in.r += skipped
		in.skip -= skipped
		if in.w-in.r < baseBytes {
			break
		}
		b, err := parseBase(in.ahead[in.r:in.w])
		if err != nil {
			return news, err
		}
		need := baseBytes + b.more
		if b.kind == kindData {
			need = dataBytes
		}
		if in.w-in.r < need {
			break
		}
		body := in.ahead[in.r+baseBytes : in.r+need]
		in.r += need
		p := (*c.sets.Load())[b.set]
		if p == nil {
			in.stale(c, &b)
			continue
		}
		fresh, err := in.frame(p, &b, body)
		if err != nil {
			return news, err
		}
		if fresh {
			brought(p.e)
		}
	}
	in.w = copy(in.ahead, in.ahead[in.r:in.w])
	in.r = 0
	return news, nil
}

// stale drops a frame of a set that this rank has closed: all ranks have opened it before any of them sends. The rank
// that sends data may not know it, as the connection may be newer than the end; the pump sends it the notice.
func (in *reader) stale(c *conn, b *base) {
	if b.kind == kindData {
		in.skip = b.more - callBytes
		in.closed = append(in.closed, b.set)
		c.stale.Store(true)
		c.n.pump.kick()
	}
}

// answerStale reports the sets that this rank has closed to the peer, which has sent data of them.
func (c *conn) answerStale() {
	if !c.stale.Swap(false) {
		return
	}
	c.rmu.Lock()
	closed := c.in.closed
	c.in.closed = nil
	c.rmu.Unlock()
	for _, set := range closed {
		c.notifyClosed(set)
	}
}

// frame acts on one frame of a peer. For a data frame, body is the header of the call.
func (in *reader) frame(p *peer, b *base, body []byte) (news bool, err error) {
	switch b.kind {
	case kindData:
		return false, in.chunk(p, b, body)
	case kindCredit:
		return true, p.credit(b.link, b.pos)
	case kindStatus:
		return false, p.e.board.store(p.rank, body)
	case kindFault:
		r, err := decodeReport(body, p.e.cfg.Layout.Size)
		if err == nil {
			p.e.faults.receive(r)
		}
		return true, err
	case kindClosed:
		p.closed.Store(true)
		osys.QuickAck(p.conn.fd) // the peer may wait for the acknowledgment
		return true, nil
	}
	return false, nil
}

// chunk begins to receive a data frame: it moves the received part of the payload to its place.
func (in *reader) chunk(p *peer, b *base, call []byte) error {
	n := b.more - callBytes - tailBytes
	r, a, err := p.expect(b.link, b.pos, n)
	if err != nil {
		return err
	}
	a.head = getCall(call)
	a.n = n
	if a.place = r.place.of(b.pos, n); a.place == nil && a.buf == nil {
		a.buf = p.e.buffers.take()
	}
	window := a.window()
	m := copy(window, in.ahead[in.r:in.w])
	in.r += m
	in.into, in.slot, in.rest = r, a, window[m:]
	return nil
}

// arrived publishes the chunk whose tail has arrived.
func (in *reader) arrived() error {
	end := in.slot.begun.Load()
	if err := checkTail(in.ahead[in.r:in.w], uint32(in.into.link.Lane), end-1); err != nil {
		return err
	}
	in.r += tailBytes
	in.slot.came.Store(end)
	in.into, in.slot, in.rest = nil, nil, nil
	return nil
}
