package tcp

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
)

// lanes holds this rank's ends of the links that a connection carries.
type lanes struct {
	conn      *conn
	senders   ends[sender]
	receivers ends[receiver] // also made when the first chunk arrives
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

func (l *lanes) linkEnd(k transport.Link) end {
	return end{e: l.conn.e, peer: l.conn, link: k, mask: uint32(l.conn.e.cfg.Layout.Slots - 1)}
}

// sender returns the sending end of a link of the layout.
func (l *lanes) sender(k transport.Link) *sender {
	return l.senders.open(k.Lane, func() *sender { return &sender{end: l.linkEnd(k), n: -1} })
}

// receiver returns the receiving end of a link of the layout.
func (l *lanes) receiver(k transport.Link) *receiver {
	return l.receivers.open(k.Lane, func() *receiver {
		return &receiver{end: l.linkEnd(k), slots: make([]arrival, l.conn.e.cfg.Layout.Slots)}
	})
}

// cancelReceives ends all receives into memory of the caller.
func (l *lanes) cancelReceives() {
	if all := l.receivers.list.Load(); all != nil {
		for _, r := range *all {
			if r != nil {
				r.CancelReceive()
			}
		}
	}
}

// credit reports released slots to the sender of their lane.
func (l *lanes) credit(lane, upTo uint32) error {
	s := l.senders.of(int(lane))
	if s == nil {
		return fmt.Errorf("%w: slots of lane %d, on which nothing was sent", transport.ErrCorrupt, lane)
	}
	return s.credit(upTo)
}

// expect returns the receiver and the slot of the chunk at a position of a lane.
func (l *lanes) expect(lane, pos uint32) (*receiver, *arrival, error) {
	r := l.receivers.of(int(lane))
	if r == nil {
		k := transport.Link{Lane: int(lane), Src: l.conn.rank, Dst: l.conn.e.cfg.Rank}
		if !l.conn.e.cfg.Layout.Has(k) {
			return nil, nil, fmt.Errorf("%w: chunk on lane %d, which there is not", transport.ErrCorrupt, lane)
		}
		r = l.receiver(k)
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
