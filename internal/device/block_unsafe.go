package device

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/transport"
)

// block is the host memory that the ranks of one host share beside their
// devices: the flags of internal/device, and then for each of them its latest
// calls and how far it has come with leaving. It is whole pages, and zero at
// first.
type block struct {
	Mem   []byte
	Flags int // bytes of it at the beginning

	Endpoint   transport.Endpoint
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
func (b *block) ring(i int) callRing {
	from := b.Flags + i*rankBytes
	part := b.Mem[from : from+ringBytes]
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&part[0])), ringBytes/8)
}

// stage returns how far the i-th rank of the host has come with leaving.
func (b *block) stage(i int) *atomic.Uint32 {
	return word(b.Mem, b.Flags+i*rankBytes+ringBytes)
}

// The stages of a rank that leaves.
const (
	stageOpen     = iota
	stageLeaving  // it makes no more calls
	stageUnmapped // it reads no other rank's memory any more
	stageLeft     // its device does not see the block any more
)

// alloc allocates the block for so many ranks, on the first of those that share it, and
// returns where the others find it.
func (b *block) alloc(ranks int) (place int, err error) {
	n := blockBytes(b.Flags, ranks)
	if b.own, err = b.Endpoint.Alloc(n); err != nil {
		return 0, fmt.Errorf("%d bytes of memory that the ranks of this host share: %w", n, err)
	}
	place, _ = b.Endpoint.Offset(b.own)
	return place, nil
}

// attach lets this rank and its device see the block that lies at place in the first rank's memory.
func (b *block) attach(dev *cuda.Device, first, place, ranks int) error {
	mem, err := b.Endpoint.View(first, place, blockBytes(b.Flags, ranks))
	if err != nil {
		return err
	}
	b.Mem = mem
	b.registered, err = dev.RegisterHost(mem)
	return err
}

// Addr returns where this rank's device sees the block.
func (b *block) Addr() cuda.Addr { return b.registered.Addr() }

// detach ends the device's use of the block.
func (b *block) detach() error {
	if b.registered == nil {
		return nil
	}
	return b.registered.Close()
}

// Free gives the block back, when no rank uses it any more. Of a block that was
// never attached, too.
func (b *block) Free() (err error) {
	if b.own != nil {
		err = b.Endpoint.Free(b.own)
	}
	b.own, b.Mem = nil, nil
	return err
}
