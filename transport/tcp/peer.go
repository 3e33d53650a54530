package tcp

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
)

// peer is the rank at the other end of a connection as a member of one set of links, and this rank's ends of the links
// of that set which the connection carries.
type peer struct {
	e      *Endpoint
	rank   int // in the set
	conn   *conn
	closed atomic.Bool // it has announced that it closes its endpoint, after everything that it sent

	senders   ends[sender]
	receivers ends[receiver] // also made when the first chunk arrives
}

// ended returns why the connection has ended without the peer's Close, nil if it has not.
func (p *peer) ended() error {
	err := p.conn.err.Load()
	if err == nil || p.closed.Load() {
		return nil
	}
	own := p.e.cfg.Rank
	return fmt.Errorf("rank %d%s -> rank %d%s: %w", own, p.e.on(own), p.rank, p.e.on(p.rank), *err)
}

// ends are the ends of one kind, by lane.
type ends[T any] struct {
	mu   sync.Mutex // held while the list is replaced
	list atomic.Pointer[[]*T]
}

// of returns the end of a lane, nil where there is none.
func (d *ends[T]) of(lane int) *T {
	if all := d.list.Load(); all != nil && lane < len(*all) {
		return (*all)[lane]
	}
	return nil
}

// open returns the end of a lane, and makes it if there is none.
func (d *ends[T]) open(lane int, fresh func() *T) *T {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.of(lane); l != nil {
		return l
	}
	var all []*T
	if old := d.list.Load(); old != nil {
		all = slices.Clone(*old)
	}
	for len(all) <= lane {
		all = append(all, nil)
	}
	all[lane] = fresh()
	d.list.Store(&all)
	return all[lane]
}

func (p *peer) linkEnd(k transport.Link) end {
	return end{e: p.e, peer: p, link: k, mask: uint32(chunksOf(&p.e.cfg.Layout) - 1)}
}

// sender returns the sending end of a link of the layout.
func (p *peer) sender(k transport.Link) *sender {
	return p.senders.open(k.Lane, func() *sender {
		return &sender{end: p.linkEnd(k), n: -1, sizes: make([]int32, chunksOf(&p.e.cfg.Layout))}
	})
}

// receiver returns the receiving end of a link of the layout.
func (p *peer) receiver(k transport.Link) *receiver {
	return p.receivers.open(k.Lane, func() *receiver {
		return &receiver{end: p.linkEnd(k), slots: make([]arrival, chunksOf(&p.e.cfg.Layout))}
	})
}

// cancelReceives ends all receives into memory of the caller.
func (p *peer) cancelReceives() {
	if all := p.receivers.list.Load(); all != nil {
		for _, r := range *all {
			if r != nil {
				r.CancelReceive()
			}
		}
	}
}

// credit reports released slots to the sender of their lane.
func (p *peer) credit(lane, upTo uint32) error {
	s := p.senders.of(int(lane))
	if s == nil {
		return fmt.Errorf("%w: slots of lane %d, on which nothing was sent", transport.ErrCorrupt, lane)
	}
	return s.credit(upTo)
}

// expect returns the receiver and the slot of the chunk of n bytes at a position of a lane.
func (p *peer) expect(lane, pos uint32, n int) (*receiver, *arrival, error) {
	if most := p.e.cfg.Layout.SlotBytes; n > most {
		return nil, nil, fmt.Errorf("%w: chunk of %d bytes, slots hold %d", transport.ErrCorrupt, n, most)
	}
	r := p.receivers.of(int(lane))
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
			transport.ErrCorrupt, pos, lane, released, r.mask+1)
	}
	if a.begun.Swap(pos+1) == pos+1 {
		return nil, nil, fmt.Errorf("%w: chunk %d of lane %d came twice", transport.ErrCorrupt, pos, lane)
	}
	return r, a, nil
}
