package omni

import (
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/sparse/block"
)

// Call is what a worker tells an aggregator that is no worker, before the packets of
// a tensor: such an aggregator has no other way to know the Shape.
type Call struct {
	Tensor uint32
	Shape  Shape
}

// CallBytes is the size of an encoded Call, little endian:
//
//	u8   version, type, operation, flags: 1 Lossy, 2 Compact
//	u32  tensor
//	u64  elements
//	u32  elements of a block, workers, aggregators, streams, columns
const CallBytes = 36

const (
	callVersion = 1
	callLossy   = 1
	callCompact = 2
)

// Encode returns c as bytes.
func (c *Call) Encode() []byte {
	s := &c.Shape
	flags := byte(0)
	if s.Lossy {
		flags |= callLossy
	}
	if s.Compact {
		flags |= callCompact
	}
	b := append(make([]byte, 0, CallBytes), callVersion, byte(s.DType), byte(s.Op), flags)
	b = binary.LittleEndian.AppendUint32(b, c.Tensor)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Grid.Elements))
	for _, v := range []int{s.Grid.Size, s.Workers, s.Aggregators, s.Streams, s.Columns} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// DecodeCall reads a Call from outside. Its Shape is valid, and no larger than
// limit says: as many workers and aggregators, no more streams, and packets of no
// more bytes. The error is an ErrProtocol, or ErrMismatch for other workers or
// aggregators.
func DecodeCall(b []byte, limit Limit) (Call, error) {
	if len(b) != CallBytes || b[0] != callVersion || b[3]&^(callLossy|callCompact) != 0 {
		return Call{}, fmt.Errorf("omni: %w: %d bytes that announce no call", ErrProtocol, len(b))
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }
	elements := binary.LittleEndian.Uint64(b[8:])
	s := Shape{
		Grid:  block.Grid{Elements: int(elements), Size: number(16)},
		DType: kernel.DType(b[1]), Op: kernel.Op(b[2]),
		Workers: number(20), Aggregators: number(24), Streams: number(28), Columns: number(32),
		Lossy: b[3]&callLossy != 0, Compact: b[3]&callCompact != 0,
	}
	if !s.DType.Valid() || elements > 1<<53 {
		return Call{}, fmt.Errorf("omni: %w: a call with type %d and %d elements", ErrProtocol, b[1], elements)
	}
	s.Grid.Width = s.DType.Size()
	switch {
	case s.Workers != limit.Workers || s.Aggregators != limit.Aggregators:
		return Call{}, fmt.Errorf("omni: %w: a call of %d workers with %d aggregators, there are %d and %d",
			ErrMismatch, s.Workers, s.Aggregators, limit.Workers, limit.Aggregators)
	case s.Streams > limit.Streams:
		return Call{}, fmt.Errorf("omni: %w: a call with %d streams, at most %d are possible", ErrProtocol, s.Streams, limit.Streams)
	case s.Columns > MaxColumns || s.Grid.Size > limit.Packet:
		return Call{}, fmt.Errorf("omni: %w: a call with %d columns and blocks of %d elements", ErrProtocol, s.Columns, s.Grid.Size)
	}
	if err := s.Validate(); err != nil {
		return Call{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if n := s.MaxPacket(); n > limit.Packet {
		return Call{}, fmt.Errorf("omni: %w: a call with packets of up to %d bytes, links carry %d", ErrProtocol, n, limit.Packet)
	}
	return Call{Tensor: binary.LittleEndian.Uint32(b[4:]), Shape: s}, nil
}

// Limit is what an aggregator takes.
type Limit struct {
	Workers, Aggregators int // exactly
	Streams              int // at most, of all aggregators
	Packet               int // bytes, at most
}
