package kernels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// ErrArgument is wrapped by the error of a call with an invalid argument: an unknown type or operation, a negative
// number of elements, an address that is 0 or between two elements. Nothing was put into the stream then.
var ErrArgument = errors.New("wrong argument")

// Part is arrays of the given number of bytes each: those of From are combined from left to right, and the values go to
// all of To. There is one of either at least.
type Part struct {
	To, From []cuda.Addr
	Bytes    int64
	Scaled   int   // the array of From that is multiplied by Work.Factor first, from 1 on; 0: none
	Where    Where // the farthest of its arrays
}

// Where is memory as a device sees it, nearest first.
type Where uint8

// The memory of a device itself, of another one, and of the host.
const (
	Own Where = iota
	Peer
	Host
)

// The numbers of blocks of a launch that waits for a link. More would not make it quicker: a block keeps blockThreads x
// 64 bytes on the way (4 vectors of a copy, 2 of two sources), 16 KiB, and a link is full with its rate times the time
// of a load. They would take the multiprocessors from the program's own kernels, for as long as the link needs.
const (
	// PeerBlocks keep 512 KiB on the way: NVLink 4 has 450 GB/s x 1.1 us = 495 KB. NCCL fills it with 16 to 32 blocks.
	// That is the rate of all links of a GPU together, which the parts of a launch share as they share its blocks.
	PeerBlocks = 32
	// HostBlocks keep 256 KiB on the way: PCIe 5 x16 has 55 GB/s x 2 us = 110 KB, with two directions at work twice that.
	HostBlocks = 16
)

// A launch has up to MaxParts parts, with up to MaxArrays arrays in all: Batch in loops.h.
const (
	MaxParts  = 16
	MaxArrays = 40

	batchHead  = 4 * 8
	batchPart  = 2 * 8
	batchBytes = batchHead + 8*MaxArrays + batchPart*MaxParts
)

// Fit reports whether one launch does all of parts.
func Fit(parts []Part) bool {
	arrays := 0
	for i := range parts {
		arrays += len(parts[i].To) + len(parts[i].From)
	}
	return len(parts) <= MaxParts && arrays <= MaxArrays
}

// Run does parts in one launch, in no order: none may need the result of another. It ignores w.Divide. A factor begins
// with one element of the type, and a product with it has the bits of a Prod. Where all parts are copies w does not
// matter.
func (s *Set) Run(stream *cuda.Stream, w *kernel.Work, parts []Part) error {
	if !slices.ContainsFunc(parts, func(p Part) bool { return len(p.From) > 1 || p.Scaled > 0 }) {
		return s.launch(stream, s.copy, kernel.Uint8, 0, kernel.Factor{}, parts)
	}
	op, d := w.Op, w.DType
	switch unsigned := d == kernel.Uint8 || d == kernel.Uint32 || d == kernel.Uint64; {
	case op > kernel.Avg || op == 0 && slices.ContainsFunc(parts, func(p Part) bool { return len(p.From) > 1 }):
		return fmt.Errorf("kernels: %v of %v: %w", op, d, ErrArgument)
	case op == kernel.Avg:
		op = kernel.Sum // to be finished by Divide
	case unsigned && (op == kernel.Min || op == kernel.Max):
		op += 2 // op_lowest, op_highest
	}
	return s.launch(stream, s.of(&s.reduce, d), d, uint64(op), w.Factor, parts)
}

// Divide divides n elements by divisor, which is at least 1: the end of an Avg
// of as many addends. dst may be src. Integers are divided with truncation
// toward zero; floating-point numbers by divisor as their own type, or as
// float32 where they are narrower. A divisor of 1 leaves every bit as it is.
func (s *Set) Divide(stream *cuda.Stream, d kernel.DType, dst, src cuda.Addr, n, divisor int64) error {
	parts := []Part{{To: []cuda.Addr{dst}, From: []cuda.Addr{src}, Bytes: n * int64(d.Size())}}
	switch {
	case divisor < 1:
		return fmt.Errorf("kernels: %v divided by %d: %w", d, divisor, ErrArgument)
	case divisor == 1:
		return s.Run(stream, nil, parts)
	}
	var factor kernel.Factor
	binary.LittleEndian.PutUint64(factor[:], uint64(divisor))
	return s.launch(stream, s.of(&s.divide, d), d, 0, factor, parts)
}

func (s *Set) of(list *[kernel.Bool]*cuda.Kernel, d kernel.DType) *cuda.Kernel {
	if !d.OnDevice() {
		return nil
	}
	return list[d]
}

// launch has k do parts, whose arrays have elements of type d.
func (s *Set) launch(stream *cuda.Stream, k *cuda.Kernel, d kernel.DType, op uint64, factor kernel.Factor,
	parts []Part) error {
	if k == nil {
		return fmt.Errorf("kernels: for %v none is loaded: %w", d, ErrArgument)
	}
	args, bytes, err := pack(d, op, factor, parts)
	if err != nil || bytes == 0 {
		return err
	}
	where := Own
	for i := range parts {
		where = max(where, parts[i].Where)
	}
	return s.start(stream, k, bytes, where, args[:])
}

// pack returns the argument of a kernel, and the number of bytes it has to compute, or an estimate of it.
func pack(d kernel.DType, op uint64, factor kernel.Factor, parts []Part) (b [batchBytes]byte, bytes int64, err error) {
	binary.LittleEndian.PutUint64(b[:], op)
	copy(b[8:], factor[:])
	if !Fit(parts) {
		return b, 0, fmt.Errorf("kernels: %d parts, more than one launch takes: %w", len(parts), ErrArgument)
	}
	most, arrays, done := int64(0), 0, 0
	for i := range parts {
		p := &parts[i]
		n := p.Bytes / int64(d.Size())
		if err := check("arrays", d, n, p.To, p.From); err != nil {
			return b, 0, err
		}
		if n == 0 {
			continue
		}
		at := b[batchHead+8*MaxArrays+batchPart*done:]
		binary.LittleEndian.PutUint64(at, uint64(n))
		for k, v := range [4]int{arrays, len(p.To), len(p.From), p.Scaled} {
			binary.LittleEndian.PutUint16(at[8+2*k:], uint16(v))
		}
		for _, list := range [2][]cuda.Addr{p.To, p.From} {
			for _, a := range list {
				binary.LittleEndian.PutUint64(b[batchHead+8*arrays:], uint64(a))
				arrays++
			}
		}
		most = max(most, p.Bytes)
		done++
	}
	binary.LittleEndian.PutUint64(b[24:], uint64(done))
	return b, most * int64(done), nil
}

// check refuses impossible arrays.
func check(what string, d kernel.DType, n int64, lists ...[]cuda.Addr) error {
	size := uint64(d.Size())
	if n < 0 || uint64(n) > 1<<62/size {
		return fmt.Errorf("kernels: %s of %d elements of %v: %w", what, n, d, ErrArgument)
	}
	for _, list := range lists {
		if len(list) == 0 {
			return fmt.Errorf("kernels: %s without a result, or without a source: %w", what, ErrArgument)
		}
		for _, a := range list {
			if n > 0 && (a == 0 || uint64(a)%size != 0) {
				return fmt.Errorf("kernels: %s of %d elements of %v at address %#x: %w", what, n, d, uint64(a), ErrArgument)
			}
		}
	}
	return nil
}

const (
	blockThreads   = 256 // as defined for the compiler in device.h
	residentBlocks = 8   // that a multiprocessor has at the same time, at most
	threadBytes    = 32  // worth one thread more
)

// start runs k on arrays of that many bytes; where is the farthest memory of them.
func (s *Set) start(stream *cuda.Stream, k *cuda.Kernel, bytes int64, where Where, args []byte) error {
	return stream.Launch(k, s.grid(bytes, where), blockThreads, args)
}

// grid returns the number of blocks of a launch, as many as are of use: each takes its share of any size.
func (s *Set) grid(bytes int64, where Where) uint32 {
	return uint32(max(1, min((bytes-1)/(blockThreads*threadBytes)+1, int64(s.MaxBlocks[where]))))
}
