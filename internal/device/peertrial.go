package device

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treerun/treerun/cuda"
)

// ThisProcess is a number that no other process has.
var ThisProcess = sync.OnceValue(func() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
})

// MemoryOffer is device memory that other ranks of the host may map.
type MemoryOffer struct {
	Handle []byte // of the allocation that it lies in; none where it cannot be exported
	Offset int64  // of the memory in the allocation, in bytes
	Size   int64  // of the allocation
	Why    string // there is no handle
}

// OfferOf offers the memory of dev at a.
func OfferOf(dev *cuda.Device, a cuda.Addr) (m MemoryOffer, err error) {
	h, _, offset, size, err := dev.ExportMemory(a)
	switch {
	case errors.Is(err, cuda.ErrNotExportable):
		m.Why = err.Error()
	case err != nil:
		return m, err
	default:
		m.Handle, m.Offset, m.Size = h[:], offset, size
	}
	return m, nil
}

// Open returns where dev sees n bytes of offered memory of another process, until
// the mapping is closed.
func (m *MemoryOffer) Open(dev *cuda.Device, n int64) (cuda.Addr, *cuda.Mapping, error) {
	h, err := m.MemHandle(n)
	if err != nil {
		return 0, nil, err
	}
	mapping, err := dev.OpenMemory(h)
	if err != nil {
		return 0, nil, err
	}
	return mapping.Addr() + cuda.Addr(m.Offset), mapping, nil
}

// MemHandle returns the handle of an allocation that has n bytes at the offset.
func (m *MemoryOffer) MemHandle(n int64) (h cuda.MemHandle, err error) {
	switch {
	case m.Why != "":
		return h, errors.New(m.Why)
	case len(m.Handle) != len(h):
		return h, fmt.Errorf("a memory handle of %d bytes, want %d", len(m.Handle), len(h))
	case m.Offset < 0 || n < 0 || m.Offset > m.Size || n > m.Size-m.Offset:
		return h, fmt.Errorf("%d bytes at %d of an allocation of %d bytes", n, m.Offset, m.Size)
	}
	copy(h[:], m.Handle)
	return h, nil
}

// PatternBytes is the size of what ranks read of each other's device memory to
// find out whether they can.
const PatternBytes = 256

// ProbeOffer is memory with a pattern that others try to read.
type ProbeOffer struct {
	Memory  MemoryOffer
	Pattern []byte
}

// PeerTrial tries to read other devices' memory: the driver's word for it is not
// enough, as containers, IOMMUs and switches of PCIe have theirs.
type PeerTrial struct {
	device *cuda.Device
	Offer  ProbeOffer
	memory cuda.Slice[uint8] // the pattern
	desk   desk
}

// desk is what one try after the other works with.
type desk struct {
	stream *cuda.Stream
	copy   cuda.Slice[uint8]
}

// NewPeerTrial makes a trial. The caller closes it when all ranks have tried.
func NewPeerTrial(ctx context.Context, dev *cuda.Device) (p *PeerTrial, err error) {
	p = &PeerTrial{device: dev}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
			p = nil
		}
	}()
	if p.memory, err = cuda.Alloc[uint8](dev, PatternBytes); err != nil {
		return p, err
	}
	if p.desk, err = newDesk(dev); err != nil {
		return p, err
	}
	p.Offer.Pattern = make([]byte, PatternBytes)
	_, _ = rand.Read(p.Offer.Pattern)
	if err = p.memory.CopyFrom(ctx, p.desk.stream, p.Offer.Pattern); err != nil {
		return p, err
	}
	p.Offer.Memory, err = OfferOf(dev, p.memory.Addr())
	return p, err
}

func newDesk(dev *cuda.Device) (k desk, err error) {
	if k.stream, err = dev.NewStream(); err != nil {
		return k, err
	}
	k.copy, err = cuda.Alloc[uint8](dev, PatternBytes)
	return k, err
}

func (k *desk) close() error {
	var err error
	if k.stream != nil {
		err = k.stream.Close()
	}
	return errors.Join(err, k.copy.Free())
}

// Close gives the memory back. p may be nil.
func (p *PeerTrial) Close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.desk.close(), p.memory.Free())
}

// Try reads the pattern of a rank, where this rank's device can reach it.
func (p *PeerTrial) Try(ctx context.Context, theirs *ProbeOffer) error {
	if len(theirs.Pattern) != PatternBytes {
		return fmt.Errorf("a pattern of %d bytes, want %d", len(theirs.Pattern), PatternBytes)
	}
	at, mapping, err := theirs.Memory.Open(p.device, PatternBytes)
	if err != nil {
		return err
	}
	got := make([]byte, PatternBytes)
	if err = p.desk.read(ctx, at, got); errors.Is(err, ErrHung) {
		return err
	}
	err = errors.Join(err, mapping.Close())
	if err == nil && !bytes.Equal(got, theirs.Pattern) {
		err = errors.New("what was read is not what stands there: is an IOMMU or ACS in the way of peer memory?")
	}
	return err
}

// ErrHung is the end of everything on a device: the driver waits for the copy when
// memory is freed, also what the caller frees.
var ErrHung = errors.New("the copy did not end")

// A try gets trySlices times trySlice: so a process that was stopped meanwhile
// does not take its own absence for the device's.
const (
	trySlice  = 500 * time.Millisecond
	trySlices = 4
)

// read copies from device memory to b.
func (k *desk) read(ctx context.Context, at cuda.Addr, b []byte) error {
	if err := k.stream.Memset(k.copy.Addr(), 0, int64(len(b))); err != nil {
		return err
	}
	if err := k.stream.Memcpy(k.copy.Addr(), at, int64(len(b))); err != nil {
		return err
	}
	for i := 0; ; i++ {
		within, cancel := context.WithTimeout(ctx, trySlice)
		err := k.stream.Synchronize(within)
		cancel()
		switch {
		case err == nil:
			return k.copy.CopyTo(ctx, k.stream, b)
		case ctx.Err() != nil || within.Err() == nil:
			return err
		case i == trySlices-1:
			return fmt.Errorf("%w within %v", ErrHung, trySlice*trySlices)
		}
	}
}
