package devices

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// block is the host memory that the ranks of one host share in addition to their devices: the flags of
// collective/internal/device, then for each of them its latest calls and its stage of leaving, and then the slots that
// each allocates, from a page on; and the messages that each notes. It is zero at first.
type block struct {
	Mem       []byte
	Flags     int     // bytes of flags at its beginning
	SlotBytes []int64 // of all slots that a rank allocates, by rank of the host
	local     []int   // the ranks of the host, rising: those that share memory with this one
	mine      int     // which of them this one is

	Endpoint   transport.Endpoint
	own        []byte             // on the rank that has allocated it: the memory to free
	registered []*cuda.Registered // with this rank's device: the first has all but slots
}

const (
	blockLine  = 64
	rankBytes  = call.SharedLogBytes + blockLine // of one rank, behind the flags
	blockGrain = 4096
)

// slotsAt is where the slots begin that the i-th rank of the host allocates; behind all there are the notes.
func (b *block) slotsAt(i int) int {
	at := (b.Flags + len(b.SlotBytes)*rankBytes + blockGrain - 1) &^ (blockGrain - 1)
	for _, n := range b.SlotBytes[:i] {
		at += int(n)
	}
	return at
}

// bytes is the size of the block.
func (b *block) bytes() int {
	return b.slotsAt(len(b.SlotBytes)) + len(b.SlotBytes)*len(b.SlotBytes)*noteBytes
}

// calls returns the latest calls of the i-th rank of the host.
func (b *block) calls(i int) call.SharedLog {
	from := b.Flags + i*rankBytes
	return words(b.Mem[from : from+call.SharedLogBytes])
}

// words returns memory as words, which lie at multiples of 8.
func words(mem []byte) []atomic.Uint64 {
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[0])), len(mem)/8)
}

// stage returns the stage of leaving that the i-th rank of the host has reached.
func (b *block) stage(i int) *atomic.Uint64 {
	from := b.Flags + i*rankBytes + call.SharedLogBytes
	return &words(b.Mem[from : from+blockLine])[0]
}

// The stages of a rank that leaves.
const (
	stageOpen     = iota
	stageLeaving  // it makes no more calls
	stageUnmapped // it reads no other rank's memory any more
	stageLeft     // its device does not see the block any more
)

// alloc allocates the block, on the first of the ranks that share it, and
// returns where the others find it.
func (b *block) alloc() (offset int, err error) {
	n := b.bytes()
	if b.own, err = b.Endpoint.Alloc(n); err != nil {
		return 0, fmt.Errorf("%d bytes of memory that the ranks of this host share: %w", n, err)
	}
	offset, _ = b.Endpoint.Offset(b.own)
	return offset, nil
}

// view maps the block, which lies at an offset of the first rank's memory.
func (b *block) view(offset int) (err error) {
	if b.Mem, err = b.Endpoint.View(b.local[0], offset, b.bytes()); err != nil {
		err = fmt.Errorf("view memory that the ranks of this host share: %w", err)
	}
	return err
}

// register lets the device see a part of the block, in whole pages, and returns where.
func (b *block) register(dev *cuda.Device, from, upTo int) (cuda.Addr, error) {
	r, err := dev.RegisterHost(b.Mem[from:upTo])
	if err != nil {
		return 0, fmt.Errorf("memory that the ranks of this host share: %w", err)
	}
	b.registered = append(b.registered, r)
	return r.Addr(), nil
}

// Addr returns where this rank's device sees the block's flags.
func (b *block) Addr() cuda.Addr { return b.registered[0].Addr() }

// detach ends the device's use of the block.
func (b *block) detach() (err error) {
	for _, r := range b.registered {
		err = errors.Join(err, r.Close())
	}
	return err
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
