package peers

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
)

// Offer is device memory that other ranks of the host may map.
type Offer struct {
	Handle []byte // of the allocation that it lies in; none where it cannot be exported
	Offset int64  // of the memory in the allocation, in bytes
	Size   int64  // of the allocation
	Why    string // there is no handle
}

// AllocBlocks allocates n bytes of dev or more, to offer, in whole blocks of the driver: it lets a process open a block
// once, and all that lies in it.
func AllocBlocks(dev *cuda.Device, n int64) (cuda.Slice[uint8], error) {
	const block = 2 << 20
	return cuda.Alloc[uint8](dev, int((n+block-1)/block*block))
}

// OfferOf offers the memory of dev at a.
func OfferOf(dev *cuda.Device, a cuda.Addr) (o Offer, err error) {
	h, _, offset, size, err := dev.ExportMemory(a)
	switch {
	case errors.Is(err, cuda.ErrNotExportable):
		o.Why = err.Error()
	case err != nil:
		return o, err
	default:
		o.Handle, o.Offset, o.Size = h[:], offset, size
	}
	return o, nil
}

// Open returns the address at which dev sees n bytes of offered memory of another process, until the mapping is closed.
func (o *Offer) Open(dev *cuda.Device, n int64) (cuda.Addr, *cuda.Mapping, error) {
	h, err := o.MemHandle(n)
	if err != nil {
		return 0, nil, err
	}
	mapping, err := dev.OpenMemory(h)
	if err != nil {
		return 0, nil, err
	}
	return mapping.Addr() + cuda.Addr(o.Offset), mapping, nil
}

// MemHandle returns the handle of an allocation that has n bytes at the offset.
func (o *Offer) MemHandle(n int64) (h cuda.MemHandle, err error) {
	switch {
	case o.Why != "":
		return h, errors.New(o.Why)
	case len(o.Handle) != len(h):
		return h, fmt.Errorf("a memory handle of %d bytes, want %d", len(o.Handle), len(h))
	case o.Offset < 0 || n < 0 || o.Offset > o.Size || n > o.Size-o.Offset:
		return h, fmt.Errorf("%d bytes at %d of an allocation of %d bytes", n, o.Offset, o.Size)
	}
	copy(h[:], o.Handle)
	return h, nil
}

// connect opens the memory of the peer. errRefused means that the driver does not allow it; other errors give the
// reason why an access that it allows fails.
func (t *pairing) connect() error {
	o := &t.offers[t.B]
	other, err := cuda.DeviceByUUID(t.hellos[t.B].UUID)
	if err == nil { // else it is hidden from this process, and yet the memory may open
		can, err := t.dev.CanAccess(other)
		if err != nil {
			return err
		}
		if !can {
			return errRefused
		}
	}
	t.bytes = max(min(t.buffers.bytes, o.Size-o.Offset), patternBytes)
	if t.source, t.mapping, err = o.Open(t.dev, t.bytes); err != nil {
		hint := " (hint: containers share it with one IPC namespace, as docker's --ipc=host)"
		if errors.Is(err, cuda.ErrNotSupported) {
			hint = ""
		}
		return fmt.Errorf("memory of rank %d cannot be opened: %w%s", t.B, err, hint)
	}
	return nil
}

// close releases the resources of the measurement.
func (m *meter) close() error { return errors.Join(m.late, m.buffers.close()) }
