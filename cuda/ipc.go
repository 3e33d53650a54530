package cuda

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// MemHandle lets another process of this host map an allocation: it is as secret as the memory is. It is the driver's
// handle, followed by words: the id of the allocation in its process (an allocation that took the place of one that was
// freed may have the same handle, but never the same id), the number of that process, and the address where the
// allocation begins there.
type MemHandle [handleBytes + 3*8]byte

const handleBytes = len(driver.Handle{})

const (
	idWord = iota
	exporterWord
	baseWord
)

func (h *MemHandle) word(i int) uint64 { return binary.LittleEndian.Uint64(h[handleBytes+8*i:]) }

// self distinguishes this process from others, of whatever PID namespace.
var self = rand.Uint64()

// block is the unit that the driver maps for a handle: small allocations share blocks of 2 MiB, larger ones begin at
// one.
type block struct{ exporter, number uint64 }

func (h *MemHandle) block() block { return block{h.word(exporterWord), h.word(baseWord) >> 21} }

// mapping is a block of another process as one device of this process
// sees it, shared by all Mappings of allocations in it: the driver may refuse to open it twice.
type mapping struct {
	handle MemHandle // of the allocation at base
	base   Addr
	users  int // under the device's opening
}

// Mapping is memory of another process. No work may use it any more when it is closed.
type Mapping struct {
	*resource
	base Addr
}

// ExportMemory returns the handle with which another process opens the memory at a, by OpenMemory. A handle always
// stands for a whole allocation, of size bytes from base on, in which a lies at offset. The driver may put small
// allocations into one block, and then a process that opens one maps its neighbors, too: memory to share is best
// allocated in multiples of 2 MiB. It must not be freed while other processes have it open.
//
// Memory that the driver cannot hand over this way is ErrNotExportable, memory
// of another device ErrWrongDevice.
func (d *Device) ExportMemory(a Addr) (h MemHandle, base Addr, offset, size int64, err error) {
	refuse := func(why error) (MemHandle, Addr, int64, int64, error) {
		return MemHandle{}, 0, 0, 0, fmt.Errorf("cuda: export memory at %#x of %s: %w", uint64(a), d, why)
	}
	p, err := d.describe(a)
	switch {
	case err != nil:
		return refuse(err)
	case p.Kind != driver.DeviceMemory && !p.Managed:
		return refuse(fmt.Errorf("%w: %w", ErrNotExportable, ErrNotDeviceMemory))
	case p.Managed:
		return refuse(fmt.Errorf("%w: it is managed memory", ErrNotExportable))
	case int(p.Device) != d.index:
		return refuse(fmt.Errorf("%w: it is memory of device %d", ErrWrongDevice, p.Device))
	case p.Pooled:
		return refuse(fmt.Errorf("%w: it is of a memory pool", ErrNotExportable))
	case !p.Exportable:
		return refuse(fmt.Errorf("%w: it was not allocated by cuMemAlloc of this process", ErrNotExportable))
	}
	c, err := d.context()
	if err != nil {
		return refuse(err)
	}
	base, size, r := c.AddressRange(a)
	if r != driver.Success {
		return refuse(failed(d, "cuMemGetAddressRange", "", r))
	}
	handle, r := c.ExportMemory(base)
	switch r {
	case driver.Success:
		copy(h[:], handle[:])
		for i, w := range []uint64{idWord: p.ID, exporterWord: self, baseWord: uint64(base)} {
			binary.LittleEndian.PutUint64(h[handleBytes+8*i:], w)
		}
		return h, base, int64(a - base), size, nil
	case driver.InvalidValue, driver.NotSupported, driver.NotPermitted:
		return refuse(fmt.Errorf("%w: %w", ErrNotExportable, failed(d, "cuIpcGetMemHandle", "", r)))
	default:
		return refuse(failed(d, "cuIpcGetMemHandle", "", r))
	}
}

// OpenMemory maps an allocation that another process of this host has exported, for use by d, which may be the same
// device or a peer of it. The other process must be alive now. Opened again, an allocation is mapped once and stays
// until the last Close. OpenMemory returns an error that wraps ErrFreed where this process still has an earlier
// allocation open at the same place: the driver may then map either.
func (d *Device) OpenMemory(h MemHandle) (*Mapping, error) {
	c, err := d.context()
	if err != nil {
		return nil, err
	}
	d.opening.Lock()
	defer d.opening.Unlock()
	m := d.mappings[h.block()]
	switch {
	case m == nil:
		base, r := c.OpenMemory(driver.Handle(h[:handleBytes]))
		if r != driver.Success {
			return nil, failed(d, "cuIpcOpenMemHandle", "", r)
		}
		m = &mapping{handle: h, base: base}
		if d.mappings == nil {
			d.mappings = map[block]*mapping{}
		}
		d.mappings[h.block()] = m
	case h.word(baseWord) == m.handle.word(baseWord) && h.word(idWord) != m.handle.word(idWord):
		return nil, fmt.Errorf("cuda: open memory of another process on %s: the block that was open in its place was %w "+
			"there: close that first", d, ErrFreed)
	}
	m.users++
	g := &Mapping{base: m.base + Addr(h.word(baseWord)-m.handle.word(baseWord))}
	g.resource = own(g, &resource{device: d, context: c, kind: kindMapping,
		release: func(c driver.Context) driver.Result { return d.unmap(c, m) }})
	return g, nil
}

// unmap ends one use of m.
func (d *Device) unmap(c driver.Context, m *mapping) driver.Result {
	d.opening.Lock()
	defer d.opening.Unlock()
	if m.users--; m.users > 0 {
		return driver.Success
	}
	delete(d.mappings, m.handle.block())
	return c.CloseMemory(m.base)
}

// Addr returns the address of the allocation for devices of this process; 0 after Close. Memory that lies at offset
// there lies at Addr()+offset here.
func (g *Mapping) Addr() Addr {
	if g.closed.Load() {
		return 0
	}
	return g.base
}
