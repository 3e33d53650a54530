package comm

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

// DeviceMemory is device memory of all ranks that every device may read where it lies.
type DeviceMemory struct {
	c      *Comm
	Number uint64      // among those of the communicator, from 1
	at     []cuda.Addr // by rank: where this rank's device sees it, 0 where it does not
	mine   cuda.Addr
	hold   *cuda.Hold
	Bytes  int64           // that every rank has
	maps   []*cuda.Mapping // of other processes' memory
	Direct bool            // all devices read it
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

// RegisterDevice lets the devices of all ranks read x where it lies.
func (c *Comm) RegisterDevice(ctx context.Context, x registrable) (*DeviceMemory, error) {
	const call = "RegisterDevice"
	refuse := func(err error) error {
		return fmt.Errorf("collective: %s on rank %d: %w: %w", call, c.Rank, ErrArgument, err)
	}
	switch {
	case x.Check() != nil:
		return nil, refuse(x.Check())
	case x.Len() == 0 || x.Device() == nil:
		return nil, refuse(errors.New("no device memory"))
	}
	if err := c.Claim(call); err != nil {
		return nil, err
	}
	defer c.End()
	if c.Devices != nil && c.Devices.device != x.Device() {
		return nil, refuse(fmt.Errorf("memory of %v; the communicator's device calls on this rank are on %v", x.Device(),
			c.Devices.device))
	}
	k := &DeviceArgs{Args: Args{registers: true, device: true}}
	if c.Devices == nil {
		d, err := c.openDevices(ctx, x.Device())
		if err != nil {
			return nil, c.openingError(k, err)
		}
		c.Devices = d
	}
	hold, err := x.Hold(fmt.Sprintf("RegisterDevice on rank %d", c.Rank))
	m, err := c.Devices.register(ctx, x.Addr(), x.Bytes(), hold, err)
	if err != nil {
		return nil, c.openingError(k, err)
	}
	return m, nil
}

// register exchanges what lies where, or that this rank has failed to hold its memory.
// The communicator is claimed.
func (d *devices) register(ctx context.Context, at cuda.Addr, bytes int64, hold *cuda.Hold, err error) (_ *DeviceMemory,
	failed error) {
	c := d.c
	w := newInner(c, openDevices)
	m := &DeviceMemory{c: c, mine: at, Bytes: bytes, hold: hold, at: make([]cuda.Addr, c.Size)}
	defer func() {
		if failed != nil {
			failed = errors.Join(failed, m.unmap())
		}
		if failed != nil && hold != nil {
			hold.Release()
		}
	}()
	type region struct {
		Memory device.MemoryOffer
		Bytes  int64
	}
	var offer device.MemoryOffer
	if err == nil {
		offer, err = device.OfferOf(d.device, at)
	}
	all, err := swap(ctx, w, region{offer, bytes}, err)
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
		seen, mapping, err := all[r].Memory.Open(d.device, all[r].Bytes)
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
func (m *DeviceMemory) unmap() error {
	var errs []error
	for _, g := range m.maps {
		errs = append(errs, g.Close())
	}
	m.maps = nil
	return errors.Join(errs...)
}

// Close ends the registration.
func (m *DeviceMemory) Close(ctx context.Context) error {
	c := m.c
	if err := c.Claim("DeviceMemory.Close"); errors.Is(err, ErrBusy) {
		return err
	} else if err != nil {
		m.hold.Release() // closed or failed: its end has unmapped the others' memory, or it will
		return nil
	}
	defer c.End()
	d := c.Devices
	if d == nil || !d.forget(m) {
		return nil
	}
	_, err := swap(ctx, newInner(c, openDevices), struct{}{}, m.unmap())
	m.hold.Release() // now nobody has it mapped
	return err
}

// forget takes m from the registrations, and reports whether it was one.
func (d *devices) forget(m *DeviceMemory) bool {
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
	memory *DeviceMemory
	at     int64 // bytes
}

// Find returns where n bytes lie, false if not in registered memory. Where they lie at
// its address, and it is not the memory any more that was registered, it is an error:
// the other ranks still see that.
func (d *devices) Find(b Buffer) (place, bool, error) {
	for _, m := range d.registered {
		if at := int64(b.addr) - int64(m.mine); m.Direct && at >= 0 && at <= m.Bytes-b.bytes {
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
func (d *devices) lend(k *DeviceArgs) (*device.Lent, uint64, error) {
	n := d.c.Size
	if len(d.registered) == 0 || k.In.bytes == 0 || max(k.In.bytes, k.Out.bytes) < leastLent {
		return nil, 0, nil
	}
	send, recv := k.In, k.Out
	together := overlapOfDevice(send, recv) != Apart
	var partIn, partOut int64 // in place: the short one lies behind the beginning of the long one by so much per rank
	switch k.Kind {
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
	in, ok, err := d.Find(send)
	out, too, err2 := d.Find(recv)
	if err := cmp.Or(err, err2); err != nil || !ok || !too {
		return nil, 0, err
	}
	l := &device.Lent{In: make([]cuda.Addr, n), Out: make([]cuda.Addr, n), InPlace: together}
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
