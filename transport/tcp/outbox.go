package tcp

import "github.com/treerun/treerun/transport/internal/osys"

// batchBytes is the largest number of bytes that one system call sends or receives.
const batchBytes = 1 << 20

// item is a data frame that waits to be sent: its beginning, and the rest of it
// where that lies elsewhere. The notice that a set is closed is one, too, as it follows the data.
type item struct {
	from *sender // nil for the notice
	buf  *buffer // of head and tail
	head []byte
	body []byte  // nil, in another sender's buffer, or memory that was lent
	loan *buffer // that other buffer
	tail []byte  // nil without body: it is in head then
	lent bool
}

func (t *item) bytes() int { return len(t.head) + len(t.body) + len(t.tail) }

// done releases the memory of t.
func (t *item) done() {
	if t.from == nil {
		return
	}
	pool := &t.from.e.buffers
	pool.drop(t.buf)
	if t.loan != nil {
		pool.drop(t.loan)
	}
	if t.lent {
		t.from.lent.Add(-1)
	}
}

// addTo adds the bytes of t from byte off on to out.
func (t *item) addTo(out *osys.Vectors, off int) {
	for _, part := range [...][]byte{t.head, t.body, t.tail} {
		if off < len(part) {
			out.Add(part[off:])
		}
		off = max(0, off-len(part))
	}
}

// outbox holds the frames of a connection that wait to be sent: credit frames and other control frames go first. wmu of
// the connection is held.
type outbox struct {
	queue  []item // data frames, the oldest first; the first sent of them are sent
	sent   int
	off    int         // bytes of the oldest unsent frame that are sent
	ctl    []byte      // control frames
	ctlOff int         // bytes of ctl that are sent
	owing  []*receiver // have released chunks that the peer does not know of
}

// push puts a data frame behind those that wait.
func (o *outbox) push(t item) {
	if len(o.queue) == cap(o.queue) && o.sent > 0 {
		waiting := copy(o.queue, o.queue[o.sent:])
		clear(o.queue[waiting:])
		o.queue, o.sent = o.queue[:waiting], 0
	}
	o.queue = append(o.queue, t)
}

// empty reports whether no frame waits.
func (o *outbox) empty() bool { return len(o.queue) == o.sent && len(o.ctl) == 0 }

// gather fills out with the next bytes to send: the rest of a partly sent data frame, then control frames, then data
// frames.
func (o *outbox) gather(out *osys.Vectors) {
	out.Reset()
	i := o.sent
	if o.off > 0 {
		o.queue[i].addTo(out, o.off)
		i++
	}
	out.Add(o.ctl[o.ctlOff:])
	for ; i < len(o.queue) && out.Room() >= 3 && out.Bytes() < batchBytes; i++ {
		o.queue[i].addTo(out, 0)
	}
}

// creditReleased appends a credit frame for every link that has released chunks.
func (o *outbox) creditReleased() {
	for _, r := range o.owing {
		r.reported, r.news = r.released.Load(), 0
		r.owed = false
		o.ctl = appendCredit(o.ctl, r.e.number, uint32(r.link.Lane), r.reported)
	}
	clear(o.owing)
	o.owing = o.owing[:0]
}

// markSent removes n sent bytes from those that gather has collected. It reports whether one of endpoint by is sent,
// and wakes up the owners of other endpoints.
func (o *outbox) markSent(n int, by *Endpoint) (news bool) {
	if o.off > 0 {
		n, news = o.markItemSent(n, by)
	}
	m := min(n, len(o.ctl)-o.ctlOff)
	if o.ctlOff += m; o.ctlOff == len(o.ctl) {
		o.ctl, o.ctlOff = o.ctl[:0], 0
	}
	for n -= m; n > 0; {
		var own bool
		n, own = o.markItemSent(n, by)
		news = news || own
	}
	return news
}

// markItemSent is markSent for up to n bytes of the oldest data frame, and returns how many of them are left.
func (o *outbox) markItemSent(n int, by *Endpoint) (left int, own bool) {
	t := &o.queue[o.sent]
	rest := t.bytes() - o.off
	if n < rest {
		o.off += n
		return 0, false
	}
	t.done()
	if own = t.from != nil && t.from.e == by; !own && t.lent {
		t.from.e.bell.Ring()
	}
	*t = item{}
	if o.sent++; o.sent == len(o.queue) {
		o.queue, o.sent = o.queue[:0], 0
	}
	o.off = 0
	return n - rest, own
}

// clear drops all frames.
func (o *outbox) clear() {
	for i := range o.queue[o.sent:] {
		o.queue[o.sent+i].done()
	}
	*o = outbox{}
}
