package omni

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// Limits of a Shape: the fields of a packet have 16 bits, and entries have room for two rows
// of all columns behind the last block.
const (
	MaxStreams = 1 << 16
	MaxColumns = 1<<12 - 1
	MaxWorkers = 1<<16 - 1
)

// none stands for the next block of a column that has none: infinity.
const none = math.MaxInt32

// Shape is what all workers and aggregators of one AllReduce must have alike.
type Shape struct {
	Grid        block.Grid
	DType       kernel.DType
	Op          kernel.Op // Sum, Min or Max
	Workers     int
	Aggregators int  // stream s is with aggregator s mod Aggregators
	Streams     int  // streams under way at once, over all aggregators
	Columns     int  // columns of a stream: the most blocks of a packet
	Compact     bool // first blocks that are zero are not carried
	Lists       bool // blocks are carried as lists where these are half as long
}

// Validate reports what of s cannot be used.
func (s *Shape) Validate() error {
	if err := s.Grid.Validate(); err != nil {
		return err
	}
	switch {
	case !s.DType.Valid() || s.DType.Size() != s.Grid.Width:
		return fmt.Errorf("omni: elements of type %v that have %d bytes", s.DType, s.Grid.Width)
	case s.Op != kernel.Sum && s.Op != kernel.Min && s.Op != kernel.Max:
		return fmt.Errorf("omni: operation %v, want sum, min or max", s.Op)
	case s.Workers < 1 || s.Workers > MaxWorkers:
		return fmt.Errorf("omni: %d workers, want 1 to %d", s.Workers, MaxWorkers)
	case s.Aggregators < 1 || s.Aggregators > s.Streams:
		return fmt.Errorf("omni: %d aggregators for %d streams", s.Aggregators, s.Streams)
	case s.Streams > MaxStreams:
		return fmt.Errorf("omni: %d streams, at most %d are possible", s.Streams, MaxStreams)
	case s.Columns < 1 || s.Columns > MaxColumns:
		return fmt.Errorf("omni: %d blocks in a packet, want 1 to %d", s.Columns, MaxColumns)
	}
	return nil
}

// columns returns the number of columns of all streams.
func (s *Shape) columns() int { return s.Streams * s.Columns }

// Live returns how many streams have anything to do: the first ones.
func (s *Shape) Live() int {
	return min(s.Streams, (s.Grid.Blocks()+s.Columns-1)/s.Columns)
}

// width returns how many columns of a live stream have blocks: the first ones.
func (s *Shape) width(stream int) int {
	return min(s.Columns, s.Grid.Blocks()-stream*s.Columns)
}

// MaxPacket returns the most bytes that a packet can have.
func (s *Shape) MaxPacket() int {
	return HeaderBytes + s.Columns*(s.Grid.BlockBytes()+entryBytes)
}

// listedFlag is in the entry of a column whose current block travels as a list.
const listedFlag = 1 << 31

// infinity returns the entry that says "no further block" of a column: the column's place in
// the first row behind the tensor.
func (s *Shape) infinity(column int) uint32 {
	rows := (s.Grid.Blocks() + s.columns() - 1) / s.columns()
	return uint32(rows*s.columns() + column)
}

// entryOf returns what stands for block b of a column in a table.
func (s *Shape) entryOf(b int32, column int) uint32 {
	if b == none {
		return s.infinity(column)
	}
	return uint32(b)
}

// parseEntry returns the block and the column that v stands for, and whether it says
// that the column's current block is a list.
func (s *Shape) parseEntry(v uint32) (b int32, column int, listed bool, err error) {
	next := v &^ listedFlag
	column, listed = int(next)%s.columns(), v != next
	switch {
	case listed && !s.Lists:
	case next == s.infinity(column):
		return none, column, listed, nil
	case int(next) < s.Grid.Blocks():
		return int32(next), column, listed, nil
	}
	return 0, 0, false, fmt.Errorf("entry %#x is neither that of a block nor an infinity", v)
}

// Digest returns a number that is the same for equal Shapes, and hardly for
// others. It is no secret.
func (s *Shape) Digest() uint64 {
	h := fnv.New64a()
	flags := 0
	if s.Compact {
		flags |= 1
	}
	if s.Lists {
		flags |= 2
	}
	var b []byte
	for _, v := range []int{s.Grid.Elements, s.Grid.Size, s.Grid.Width, int(s.DType), int(s.Op), s.Workers, s.Aggregators,
		s.Streams, s.Columns, flags} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	h.Write(b)
	return h.Sum64()
}
