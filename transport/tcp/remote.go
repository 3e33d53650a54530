package tcp

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
)

// remote is another rank to which there is a connection.
type remote struct {
	e    *Endpoint
	rank int
	conn *conn

	opening   sync.Mutex                  // while one of these is replaced
	senders   atomic.Pointer[[]*sender]   // by lane; nil: nobody has asked for it
	receivers atomic.Pointer[[]*receiver] // likewise; one is made, too, when the first chunk comes

	round atomic.Uint32 // how often the sockets were looked at
	empty atomic.Uint32 // how often in a row that brought nothing
}

// linkOf returns the end of a lane in list, nil where there is none.
func linkOf[T any](list *atomic.Pointer[[]*T], lane int) *T {
	if all := list.Load(); all != nil && lane < len(*all) {
		return (*all)[lane]
	}
	return nil
}

// openLink returns the end of a lane in list, and makes it where there is none.
func openLink[T any](p *remote, list *atomic.Pointer[[]*T], lane int, fresh func() *T) *T {
	p.opening.Lock()
	defer p.opening.Unlock()
	if l := linkOf(list, lane); l != nil {
		return l
	}
	var all []*T
	if old := list.Load(); old != nil {
		all = slices.Clone(*old)
	}
	for len(all) <= lane {
		all = append(all, nil)
	}
	all[lane] = fresh()
	list.Store(&all)
	return all[lane]
}

func (p *remote) end(k transport.Link) end {
	return end{e: p.e, peer: p, link: k, mask: uint32(p.e.cfg.Layout.Slots - 1)}
}

// sender returns the sending end of a link of the layout.
func (p *remote) sender(k transport.Link) *sender {
	return openLink(p, &p.senders, k.Lane, func() *sender { return &sender{end: p.end(k), n: -1} })
}

// receiver returns the receiving end of a link of the layout.
func (p *remote) receiver(k transport.Link) *receiver {
	return openLink(p, &p.receivers, k.Lane, func() *receiver {
		return &receiver{end: p.end(k), slots: make([]arrival, p.e.cfg.Layout.Slots)}
	})
}

// cancelReceives ends what may still be written to memory of the caller.
func (p *remote) cancelReceives() {
	if all := p.receivers.Load(); all != nil {
		for _, r := range *all {
			if r != nil {
				r.CancelReceive()
			}
		}
	}
}

// tellAfter is after how many looks at the sockets that brought nothing the
// peer is told of released slots: some dozen microseconds, in which most often
// there is a frame to which the news can be added.
const tellAfter = 48

// look reads the socket, unless that was done once since the link that asks,
// whose round it is, asked last: so links that share a socket cost one system
// call per turn of a waiting loop. A link that has not asked for longer begins a
// round of its own. It reports whether there may be news.
func (p *remote) look(round *uint32) bool {
	now := p.round.Load()
	if now-*round == 1 {
		*round = now
		return true
	}
	*round = p.round.Add(1)
	p.e.pump.turns.Add(1)
	return p.progress()
}

// progress sends and receives what can be at once.
func (p *remote) progress() (news bool) {
	c := p.conn
	if c.pending.Load() {
		news = c.flush()
	}
	news = c.receive() || news
	if news {
		p.empty.Store(0)
	} else if c.owes.Load() && p.empty.Add(1) >= tellAfter {
		p.empty.Store(0)
		c.flush()
	}
	return news
}

// flush sends what waits, as far as there is room.
func (p *remote) flush() {
	if c := p.conn; c.pending.Load() {
		c.wmu.Lock()
		c.flushUnlessBlocked()
		c.wmu.Unlock()
	}
}

// flushUnlessBlocked is flush without another try where there was no room the
// last time: a look at the socket will tell. wmu is held.
func (c *conn) flushUnlessBlocked() {
	if !c.blocked.Load() {
		c.flushLocked()
	}
}

// left reports whether the peer has closed, and everything it sent is here.
func (p *remote) left() bool { return p.conn.closed.Load() }

// credit gives news of released slots to the sender that they concern.
func (p *remote) credit(lane, upTo uint32) error {
	s := linkOf(&p.senders, int(lane))
	if s == nil {
		return fmt.Errorf("%w: slots of lane %d, on which nothing was sent", transport.ErrCorrupt, lane)
	}
	return s.credit(upTo)
}

// expect returns where the chunk of n bytes at a position of a lane belongs.
func (p *remote) expect(lane, pos uint32, n int) (*receiver, *arrival, error) {
	r := linkOf(&p.receivers, int(lane))
	if r == nil {
		k := transport.Link{Lane: int(lane), Src: p.rank, Dst: p.e.cfg.Rank}
		if !p.e.cfg.Layout.Has(k) {
			return nil, nil, fmt.Errorf("%w: chunk on lane %d, which there is not", transport.ErrCorrupt, lane)
		}
		r = p.receiver(k)
	}
	released := r.released.Load()
	a := &r.slots[pos&r.mask]
	if pos-released > r.mask {
		return nil, nil, fmt.Errorf("%w: chunk %d of lane %d, of which %d are released and %d may follow",
			transport.ErrCorrupt, pos, r.link.Lane, released, r.mask+1)
	}
	if a.begun.Swap(pos+1) == pos+1 {
		return nil, nil, fmt.Errorf("%w: chunk %d of lane %d came twice", transport.ErrCorrupt, pos, r.link.Lane)
	}
	return r, a, nil
}

// ended returns why the connection has ended without the peer's Close, nil while it has not.
func (p *remote) ended() error {
	err := p.conn.err.Load()
	if err == nil || p.left() {
		return nil
	}
	own := p.e.cfg.Rank
	return fmt.Errorf("rank %d%s -> rank %d%s: %w", own, p.e.on(own), p.rank, p.e.on(p.rank), *err)
}
