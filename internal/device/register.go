package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/comm/setup"
)

// Memory is device memory of all ranks that every device may read where it lies.
type Memory struct {
	Number uint64      // among those of the communicator, from 1
	at     []cuda.Addr // by rank: where this rank's device sees it, 0 where it does not
	mine   cuda.Addr
	hold   *cuda.Hold
	Bytes  int64           // that every rank has
	maps   []*cuda.Mapping // of other processes' memory
	Direct bool            // all devices read it
}

// Register exchanges what lies where, or that this rank has failed to hold its memory.
// The communicator is claimed.
func (d *Session) Register(ctx context.Context, at cuda.Addr, bytes int64, hold *cuda.Hold, err error) (_ *Memory,
	failed error) {
	c := d.c
	m := &Memory{mine: at, Bytes: bytes, hold: hold, at: make([]cuda.Addr, c.Size)}
	defer func() {
		if failed != nil {
			failed = errors.Join(failed, m.unmap())
		}
		if failed != nil && hold != nil {
			hold.Release()
		}
	}()
	type region struct {
		Memory peers.Offer
		Bytes  int64
	}
	var offer peers.Offer
	if err == nil {
		offer, err = peers.OfferOf(d.Device, at)
	}
	all, err := swap(ctx, c.Inner, region{offer, bytes}, err)
	if err != nil {
		return nil, err
	}
	for r := range all {
		m.Bytes = min(m.Bytes, all[r].Bytes)
	}
	direct := len(d.local) == c.Size
	for _, r := range d.sources {
		if !direct {
			break
		}
		seen, mapping, err := all[r].Memory.Open(d.Device, all[r].Bytes)
		if err != nil {
			direct = false
			break
		}
		m.at[r] = seen
		m.maps = append(m.maps, mapping)
	}
	everywhere, err := swap(ctx, c.Inner, direct, nil)
	if err != nil {
		return nil, err
	}
	m.Direct = m.Bytes > 0
	for _, yes := range everywhere {
		m.Direct = m.Direct && yes
	}
	if !m.Direct {
		if err := m.unmap(); err != nil {
			return nil, err
		}
	}
	d.registrations++
	m.Number = d.registrations
	d.registered = append(d.registered, m)
	return m, nil
}

// unmap gives up the other ranks' memory.
func (m *Memory) unmap() error {
	var errs []error
	for _, g := range m.maps {
		errs = append(errs, g.Close())
	}
	m.maps = nil
	return errors.Join(errs...)
}

// Unregister ends the registration of m, unless the session has ended it.
func (d *Session) Unregister(ctx context.Context, m *Memory) error {
	i := slices.Index(d.registered, m)
	if i < 0 {
		return nil
	}
	d.registered = slices.Delete(d.registered, i, i+1)
	_, err := swap(ctx, d.c.Inner, struct{}{}, m.unmap())
	m.Release() // now no rank has it mapped
	return err
}

// Release gives this rank's memory back to its holder.
func (m *Memory) Release() { m.hold.Release() }

// minLent is from which size on, in bytes, a message is read where it lies: the
// stream then waits, at the end, until all others have read.
const minLent = 256 << 10

// place is where a buffer lies in registered memory.
type place struct {
	memory *Memory
	at     int64 // bytes
}

// Find returns where n bytes lie, false if not in registered memory. Where they lie at
// its address, and it is not the memory any more that was registered, it is an error:
// the other ranks still see that.
func (d *Session) Find(b Buffer) (place, bool, error) {
	for _, m := range d.registered {
		if at := int64(b.Addr) - int64(m.mine); m.Direct && at >= 0 && at <= m.Bytes-b.Bytes {
			if err := m.hold.Check(); err != nil {
				return place{}, false, fmt.Errorf("%s lies where memory is registered that is gone: %w; call DeviceMemory.Close "+
					"before it is freed", b.Name, err)
			}
			return place{m, at}, true, nil
		}
	}
	return place{}, false, nil
}

// Lend returns where the ranks' buffers lie, and a number for that, which is the
// same on all ranks if the places are; nil and 0 where the call goes through staging
// memory.
func (d *Session) Lend(kind plan.Kind, send, recv Buffer) (*Lent, uint64, error) {
	n := d.c.Size
	if len(d.registered) == 0 || send.Bytes == 0 || max(send.Bytes, recv.Bytes) < minLent {
		return nil, 0, nil
	}
	together := OverlapOf(send, recv) != setup.Apart
	var partIn, partOut int64 // in place: the short one lies behind the beginning of the long one by so much per rank
	switch kind {
	case plan.AllReduce:
	case plan.AllGather:
		if together {
			send, partIn = recv, send.Bytes
		}
	case plan.ReduceScatter:
		if together {
			recv, partOut = send, recv.Bytes
		}
	default:
		return nil, 0, nil
	}
	in, ok, err := d.Find(send)
	out, too, err2 := d.Find(recv)
	if err := cmp.Or(err, err2); err != nil || !ok || !too {
		return nil, 0, err
	}
	l := &Lent{In: make([]cuda.Addr, n), Out: make([]cuda.Addr, n), InPlace: together}
	for _, r := range d.sources {
		l.In[r] = in.memory.at[r] + cuda.Addr(in.at+int64(r)*partIn)
		l.Out[r] = out.memory.at[r] + cuda.Addr(out.at+int64(r)*partOut)
	}
	number := uint64(1)
	for _, v := range []uint64{in.memory.Number, uint64(in.at), out.memory.Number, uint64(out.at)} {
		number = (number ^ v) * 0x9E3779B97F4A7C15
	}
	return l, number | 1, nil
}
