package peers

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
)

// offer is a rank's memory for others: Bytes to read, and as many behind that to
// write.
type offer struct {
	Handle []byte // of the allocation
	Offset int64  // of the memory in the allocation, in bytes
	Size   int64  // of the allocation, in bytes
	Bytes  int64
}

func (k *buffers) offer() (offer, error) {
	h, _, offset, size, err := k.dev.ExportMemory(k.memory.Addr())
	return offer{Handle: h[:], Offset: offset, Size: size, Bytes: k.bytes}, err
}

// link is a peer's memory as this rank's device sees it.
type link struct {
	source, inbox cuda.Addr
	bytes         int64 // of each
	mapping       *cuda.Mapping
}

// connect opens the memory of a peer. errRefused says that the driver does not allow
// it; other errors say why what it allows does not work.
func (m *meter) connect(peer int) (*link, error) {
	o, theirs := &m.offers[peer], &m.hellos[peer]
	if o.Bytes < patternBytes || o.Bytes > mostBytes || o.Offset < 0 || o.Size < 2*o.Bytes || o.Offset > o.Size-2*o.Bytes {
		return nil, fmt.Errorf("rank %d offers %d bytes at %d of an allocation of %d bytes", peer, o.Bytes, o.Offset, o.Size)
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
	var h cuda.MemHandle
	if copy(h[:], o.Handle); len(o.Handle) != len(h) {
		return nil, fmt.Errorf("rank %d offers a handle of %d bytes, want %d", peer, len(o.Handle), len(h))
	}
	l := &link{bytes: o.Bytes}
	if l.mapping, err = m.dev.OpenMemory(h); err != nil {
		return nil, fmt.Errorf("memory of rank %d cannot be opened: %w%s", peer, err, openHint(err))
	}
	l.source = l.mapping.Addr() + cuda.Addr(o.Offset)
	l.inbox = l.source + cuda.Addr(l.bytes)
	return l, nil
}

// openHint says what may be done.
func openHint(err error) string {
	if errors.Is(err, cuda.ErrNotSupported) {
		return ""
	}
	return " (hint: containers share it with one IPC namespace, as docker's --ipc=host)"
}

// close gives the memory up.
func (l *link) close() error { return l.mapping.Close() }

// close gives back what measuring took.
func (m *meter) close() error { return errors.Join(m.late, m.buffers.close()) }
