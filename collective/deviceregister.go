package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/device"
)

// deviceMemory is device memory of all ranks that every device may read where it lies.
type deviceMemory struct {
	c      *inside
	number uint64      // among those of the communicator, from 1
	at     []cuda.Addr // by rank: where this rank's device sees it, 0 where it does not
	mine   cuda.Addr
	hold   *cuda.Hold
	bytes  int64           // that every rank has
	maps   []*cuda.Mapping // of other processes' memory
	direct bool            // all devices read it
}

// registrable is a cuda.Slice, whatever its type.
type registrable interface {
	Check() error
	Len() int
	Device() *cuda.Device
	Addr() cuda.Addr
	Bytes() int64
	Hold(by string) (*cuda.Hold, error)
}

// registerDevice lets the devices of all ranks read x where it lies.
func (c *inside) registerDevice(ctx context.Context, x registrable) (*deviceMemory, error) {
	const call = "RegisterDevice"
	refuse := func(err error) error {
		return fmt.Errorf("collective: %s on rank %d: %w: %w", call, c.rank, ErrArgument, err)
	}
	switch {
	case x.Check() != nil:
		return nil, refuse(x.Check())
	case x.Len() == 0 || x.Device() == nil:
		return nil, refuse(errors.New("no device memory"))
	}
	if err := c.claim(call); err != nil {
		return nil, err
	}
	defer c.end()
	if c.devices != nil && c.devices.device != x.Device() {
		return nil, refuse(fmt.Errorf("memory of %v; the communicator's device calls on this rank are on %v", x.Device(),
			c.devices.device))
	}
	k := &deviceArgs{args: args{registers: true, device: true}}
	if c.devices == nil {
		d, err := c.openDevices(ctx, x.Device())
		if err != nil {
			return nil, c.openingError(k, err)
		}
		c.devices = d
	}
	hold, err := x.Hold(fmt.Sprintf("RegisterDevice on rank %d", c.rank))
	m, err := c.devices.register(ctx, x.Addr(), x.Bytes(), hold, err)
	if err != nil {
		return nil, c.openingError(k, err)
	}
	return m, nil
}

// register exchanges what lies where, or that this rank has failed to hold its memory.
// The communicator is claimed.
func (d *devices) register(ctx context.Context, at cuda.Addr, bytes int64, hold *cuda.Hold, err error) (_ *deviceMemory,
	failed error) {
	c := d.c
	w := newInner(c, openDevices)
	m := &deviceMemory{c: c, mine: at, bytes: bytes, hold: hold, at: make([]cuda.Addr, c.size)}
	defer func() {
		if failed != nil {
			failed = errors.Join(failed, m.unmap())
		}
		if failed != nil && hold != nil {
			hold.Release()
		}
	}()
	type region struct {
		Memory memoryOffer
		Bytes  int64
	}
	var offer memoryOffer
	if err == nil {
		offer, err = offerOf(d.device, at)
	}
	all, err := swap(ctx, w, region{offer, bytes}, err)
	if err != nil {
		return nil, err
	}
	for r := range all {
		m.bytes = min(m.bytes, all[r].Bytes)
	}
	direct := len(d.local) == c.size
	for _, r := range d.sources {
		if !direct {
			break
		}
		seen, mapping, err := all[r].Memory.open(d.device, all[r].Bytes)
		if err != nil {
			direct = false
			break
		}
		m.at[r] = seen
		m.maps = append(m.maps, mapping)
	}
	everywhere, err := swap(ctx, w, direct, nil)
	if err != nil {
		return nil, err
	}
	m.direct = m.bytes > 0
	for _, yes := range everywhere {
		m.direct = m.direct && yes
	}
	if !m.direct {
		if err := m.unmap(); err != nil {
			return nil, err
		}
	}
	d.registrations++
	m.number = d.registrations
	d.registered = append(d.registered, m)
	return m, nil
}

// unmap gives up the other ranks' memory.
func (m *deviceMemory) unmap() error {
	var errs []error
	for _, g := range m.maps {
		errs = append(errs, g.Close())
	}
	m.maps = nil
	return errors.Join(errs...)
}

// Close ends the registration.
func (m *deviceMemory) Close(ctx context.Context) error {
	c := m.c
	if err := c.claim("DeviceMemory.Close"); errors.Is(err, ErrBusy) {
		return err
	} else if err != nil {
		m.hold.Release() // closed or failed: its end has unmapped the others' memory, or it will
		return nil
	}
	defer c.end()
	d := c.devices
	if d == nil || !d.forget(m) {
		return nil
	}
	_, err := swap(ctx, newInner(c, openDevices), struct{}{}, m.unmap())
	m.hold.Release() // now nobody has it mapped
	return err
}

// forget takes m from the registrations, and reports whether it was one.
func (d *devices) forget(m *deviceMemory) bool {
	i := slices.Index(d.registered, m)
	if i >= 0 {
		d.registered = slices.Delete(d.registered, i, i+1)
	}
	return i >= 0
}

// leastLent is from which size on, in bytes, a message is read where it lies: the
// stream then waits, at the end, until all others have read.
const leastLent = 256 << 10

// place is where a buffer lies in registered memory.
type place struct {
	memory *deviceMemory
	at     int64 // bytes
}

// find returns where n bytes lie, false if not in registered memory. Where they lie at
// its address, and it is not the memory any more that was registered, it is an error:
// the other ranks still see that.
func (d *devices) find(b buffer) (place, bool, error) {
	for _, m := range d.registered {
		if at := int64(b.addr) - int64(m.mine); m.direct && at >= 0 && at <= m.bytes-b.bytes {
			if err := m.hold.Check(); err != nil {
				return place{}, false, fmt.Errorf("%s lies where memory is registered that is gone: %w; call DeviceMemory.Close "+
					"before it is freed", b.name, err)
			}
			return place{m, at}, true, nil
		}
	}
	return place{}, false, nil
}

// lend returns where the ranks' buffers lie, and a number for that, which is the
// same on all ranks if the places are; nil and 0 where the call goes through staging
// memory.
func (d *devices) lend(k *deviceArgs) (*device.Lent, uint64, error) {
	n := d.c.size
	if len(d.registered) == 0 || k.in.bytes == 0 || max(k.in.bytes, k.out.bytes) < leastLent {
		return nil, 0, nil
	}
	send, recv := k.in, k.out
	together := overlapOfDevice(send, recv) != apart
	var partIn, partOut int64 // in place: the short one lies behind the beginning of the long one by so much per rank
	switch k.kind {
	case plan.AllReduce:
	case plan.AllGather:
		if together {
			send, partIn = recv, send.bytes
		}
	case plan.ReduceScatter:
		if together {
			recv, partOut = send, recv.bytes
		}
	default:
		return nil, 0, nil
	}
	in, ok, err := d.find(send)
	out, too, err2 := d.find(recv)
	if err := cmp.Or(err, err2); err != nil || !ok || !too {
		return nil, 0, err
	}
	l := &device.Lent{In: make([]cuda.Addr, n), Out: make([]cuda.Addr, n), InPlace: together}
	for _, r := range d.sources {
		l.In[r] = in.memory.at[r] + cuda.Addr(in.at+int64(r)*partIn)
		l.Out[r] = out.memory.at[r] + cuda.Addr(out.at+int64(r)*partOut)
	}
	number := uint64(1)
	for _, v := range []uint64{in.memory.number, uint64(in.at), out.memory.number, uint64(out.at)} {
		number = (number ^ v) * 0x9E3779B97F4A7C15
	}
	return l, number | 1, nil
}
