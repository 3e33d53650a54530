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

// Open returns where dev sees n bytes of offered memory of another process, until
// the mapping is closed.
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

// offer is a rank's memory for others to read.
type offer struct {
	Memory Offer
	Bytes  int64
}

func (k *buffers) offer() (offer, error) {
	o, err := OfferOf(k.dev, k.source.Addr())
	return offer{o, k.bytes}, err
}

// link is a peer's memory as this rank's device sees it.
type link struct {
	source  cuda.Addr
	bytes   int64
	mapping *cuda.Mapping
}

// connect opens the memory of a peer. errRefused says that the driver does not allow
// it; other errors say why what it allows does not work.
func (m *meter) connect(peer int) (*link, error) {
	o, theirs := &m.offers[peer], &m.hellos[peer]
	if o.Bytes < patternBytes || o.Bytes > maxBytes {
		return nil, fmt.Errorf("rank %d offers %d bytes", peer, o.Bytes)
	}
	other, err := cuda.DeviceByUUID(theirs.UUID)
	if err == nil { // else it is hidden from this process, and the memory may open all the same
		can, err := m.dev.CanAccess(other)
		if err != nil {
			return nil, err
		}
		if !can {
			return nil, errRefused
		}
	}
	at, mapping, err := o.Memory.Open(m.dev, o.Bytes)
	if err != nil {
		return nil, fmt.Errorf("memory of rank %d cannot be opened: %w%s", peer, err, openHint(err))
	}
	return &link{source: at, bytes: o.Bytes, mapping: mapping}, nil
}

// openHint says what may be done.
func openHint(err error) string {
	if errors.Is(err, cuda.ErrNotSupported) {
		return ""
	}
	return " (hint: containers share it with one IPC namespace, as docker's --ipc=host)"
}

// close gives back what measuring took.
func (m *meter) close() error { return errors.Join(m.late, m.buffers.close()) }
