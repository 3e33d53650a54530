package tcp

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
)

// linkOf returns the end of a lane in list, nil where there is none.
func linkOf[T any](list *atomic.Pointer[[]*T], lane int) *T {
	if all := list.Load(); all != nil && lane < len(*all) {
		return (*all)[lane]
	}
	return nil
}

// openLink returns the end of a lane in list, and makes it if there is none.
func openLink[T any](c *conn, list *atomic.Pointer[[]*T], lane int, fresh func() *T) *T {
	c.opening.Lock()
	defer c.opening.Unlock()
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

func (c *conn) linkEnd(k transport.Link) end {
	return end{e: c.e, peer: c, link: k, mask: uint32(c.e.cfg.Layout.Slots - 1)}
}

// sender returns the sending end of a link of the layout.
func (c *conn) sender(k transport.Link) *sender {
	return openLink(c, &c.senders, k.Lane, func() *sender { return &sender{end: c.linkEnd(k), n: -1} })
}

// receiver returns the receiving end of a link of the layout.
func (c *conn) receiver(k transport.Link) *receiver {
	return openLink(c, &c.receivers, k.Lane, func() *receiver {
		return &receiver{end: c.linkEnd(k), slots: make([]arrival, c.e.cfg.Layout.Slots)}
	})
}

// cancelReceives ends all receives into memory of the caller.
func (c *conn) cancelReceives() {
	if all := c.receivers.Load(); all != nil {
		for _, r := range *all {
			if r != nil {
				r.CancelReceive()
			}
		}
	}
}

// tellAfter is the number of polls of the sockets in a row that brought nothing after which released slots are reported
// to the peer: some dozen microseconds, in which there is usually a frame to which the report can be added.
const tellAfter = 48

// look reads the socket, unless that was done once since the calling link, whose round it is, last called look: so
// links that share a socket cost one system call per turn of a waiting loop. A link that has not called it for longer
// begins a round of its own.
func (c *conn) look(round *uint32) {
	now := c.round.Load()
	if now-*round == 1 {
		*round = now
		return
	}
	*round = c.round.Add(1)
	c.e.pump.turns.Add(1)
	c.progress()
}

// progress sends and receives as much as possible without blocking.
func (c *conn) progress() {
	news := c.pending.Load() && c.flush()
	if c.receive() || news {
		c.empty.Store(0)
	} else if c.owes.Load() && c.empty.Add(1) >= tellAfter {
		c.empty.Store(0)
		c.flush()
	}
}

// flushPosted sends waiting frames as far as there is room, unless there was none the last time.
func (c *conn) flushPosted() {
	if c.pending.Load() {
		c.wmu.Lock()
		c.flushUnlessBlocked()
		c.wmu.Unlock()
	}
}

// flushUnlessBlocked is flush without another attempt where there was no room the last time: the poller reports room.
// wmu is held.
func (c *conn) flushUnlessBlocked() {
	if !c.blocked.Load() {
		c.flushLocked()
	}
}

// left reports whether the peer has closed, and everything it sent has arrived.
func (c *conn) left() bool { return c.closed.Load() }

// credit reports released slots to the sender of their lane.
func (c *conn) credit(lane, upTo uint32) error {
	s := linkOf(&c.senders, int(lane))
	if s == nil {
		return fmt.Errorf("%w: slots of lane %d, on which nothing was sent", transport.ErrCorrupt, lane)
	}
	return s.credit(upTo)
}

// expect returns the receiver and the slot of the chunk at a position of a lane.
func (c *conn) expect(lane, pos uint32) (*receiver, *arrival, error) {
	r := linkOf(&c.receivers, int(lane))
	if r == nil {
		k := transport.Link{Lane: int(lane), Src: c.rank, Dst: c.e.cfg.Rank}
		if !c.e.cfg.Layout.Has(k) {
			return nil, nil, fmt.Errorf("%w: chunk on lane %d, which there is not", transport.ErrCorrupt, lane)
		}
		r = c.receiver(k)
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

// ended returns why the connection has ended without the peer's Close, nil if it has not.
func (c *conn) ended() error {
	err := c.err.Load()
	if err == nil || c.left() {
		return nil
	}
	own := c.e.cfg.Rank
	return fmt.Errorf("rank %d%s -> rank %d%s: %w", own, c.e.on(own), c.rank, c.e.on(c.rank), *err)
}
