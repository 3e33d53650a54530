package comm

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/transport"
)

// deviceBlock is the host memory that the ranks of one host share beside their
// devices: the flags of internal/device, and then for each of them its latest
// calls and how far it has come with leaving. It is whole pages, and zero at
// first.
type deviceBlock struct {
	mem   []byte
	flags int // bytes of it at the beginning

	ep         transport.Endpoint
	own        []byte           // on the rank that has allocated it: what it has to free
	registered *cuda.Registered // with this rank's device
}

const (
	blockLine  = 64
	rankBytes  = ringBytes + blockLine // of one rank, behind the flags
	blockGrain = 4096
)

// blockBytes is the size of a block for so many ranks.
func blockBytes(flags, ranks int) int {
	return (flags + ranks*rankBytes + blockGrain - 1) &^ (blockGrain - 1)
}

// ring returns the latest calls of the i-th rank of the host.
func (b *deviceBlock) ring(i int) callRing {
	from := b.flags + i*rankBytes
	part := b.mem[from : from+ringBytes]
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&part[0])), ringBytes/8)
}

// stage returns how far the i-th rank of the host has come with leaving.
func (b *deviceBlock) stage(i int) *atomic.Uint32 {
	from := b.flags + i*rankBytes + ringBytes
	part := b.mem[from : from+4]
	return (*atomic.Uint32)(unsafe.Pointer(&part[0]))
}

// The stages of a rank that leaves.
const (
	stageOpen     = iota
	stageLeaving  // it makes no more calls
	stageUnmapped // it reads no other rank's memory any more
	stageLeft     // its device does not see the block any more
)

// makeBlock allocates the block, on the first of the ranks that share it, and
// returns where the others find it.
func (o *opening) makeBlock() (b *deviceBlock, place int, err error) {
	n := blockBytes(o.layout.FlagBytes(), len(o.local))
	b = &deviceBlock{flags: o.layout.FlagBytes(), ep: o.c.Endpoint}
	b.own, err = o.c.Endpoint.Alloc(n)
	if err != nil {
		return nil, 0, fmt.Errorf("%d bytes of memory that the ranks of this host share: %w", n, err)
	}
	place, _ = o.c.Endpoint.(transport.SharedHeap).Offset(b.own)
	return b, place, nil
}

// attachBlock lets this rank and its device see the block that lies at place.
func (o *opening) attachBlock(place int) error {
	if o.block == nil {
		o.block = &deviceBlock{flags: o.layout.FlagBytes(), ep: o.c.Endpoint}
	}
	n := blockBytes(o.layout.FlagBytes(), len(o.local))
	mem, err := o.c.Endpoint.(transport.SharedHeap).View(o.local[0], place, n)
	if err != nil {
		return err
	}
	o.block.mem = mem
	o.block.registered, err = o.device.RegisterHost(mem)
	return err
}

// addr returns where this rank's device sees the block.
func (b *deviceBlock) addr() cuda.Addr {
	if b == nil || b.registered == nil {
		return 0
	}
	return b.registered.Addr()
}

// detach ends the device's use of the block.
func (b *deviceBlock) detach() error {
	if b == nil || b.registered == nil {
		return nil
	}
	return b.registered.Close()
}

// free gives the block back, when no rank uses it any more. Of a block that was
// never attached, too.
func (b *deviceBlock) free() (err error) {
	if b == nil {
		return nil
	}
	if b.own != nil {
		err = b.ep.Free(b.own)
	}
	b.own, b.mem = nil, nil
	return err
}
