package omni

import (
	"encoding/binary"
	"fmt"
	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// A packet, little endian but for elements and lists, which are in the order of the machine:
//
//	u16  stream
//	u16  blocks
//	u32  number of the tensor
//	u32  round of the stream, which goes on from tensor to tensor
//	u16  worker, 0xFFFF in results
//	u16  entries of the table, at least as many as blocks
//	u64  digest of the Shape
//	...  the blocks, each as its values or, with Shape.Lists, as a list
//	u32  per entry: the column's next block, with the highest bit if the packet has the
//	     current one as a list. First those of the blocks, then those of columns whose
//	     current block is zero

// HeaderBytes is the size of a packet without blocks and table.
const HeaderBytes = 24

const (
	entryBytes = 4
	fromAll    = 0xFFFF // worker of a result
)

// Header is what stands in front of every packet.
type Header struct {
	Blocks  int // carried
	Stream  int
	Tensor  uint32
	Round   uint32
	Worker  int // -1 in a result
	Entries int // of the table
	Digest  uint64
}

// Decode reads the header of a packet from outside and checks that blocks and
// table may be as it says. The error is an block.ErrProtocol.
func Decode(packet []byte) (Header, error) {
	if len(packet) < HeaderBytes {
		return Header{}, fmt.Errorf("omni: %w: %d bytes, less than a header", block.ErrProtocol, len(packet))
	}
	h := Header{
		Stream:  int(binary.LittleEndian.Uint16(packet)),
		Blocks:  int(binary.LittleEndian.Uint16(packet[2:])),
		Tensor:  binary.LittleEndian.Uint32(packet[4:]),
		Round:   binary.LittleEndian.Uint32(packet[8:]),
		Worker:  int(binary.LittleEndian.Uint16(packet[12:])),
		Entries: int(binary.LittleEndian.Uint16(packet[14:])),
		Digest:  binary.LittleEndian.Uint64(packet[16:]),
	}
	if h.Worker == fromAll {
		h.Worker = -1
	}
	body := len(packet) - HeaderBytes - h.Entries*entryBytes
	if h.Entries < h.Blocks || h.Entries > MaxColumns || body < h.Blocks || h.Blocks == 0 && body != 0 {
		return Header{}, fmt.Errorf("omni: %w: %d bytes with %d blocks and a table of %d", block.ErrProtocol, len(packet),
			h.Blocks, h.Entries)
	}
	return h, nil
}

// put writes h to the begin of packet.
func (h *Header) put(packet []byte) {
	binary.LittleEndian.PutUint16(packet, uint16(h.Stream))
	binary.LittleEndian.PutUint16(packet[2:], uint16(h.Blocks))
	binary.LittleEndian.PutUint32(packet[4:], h.Tensor)
	binary.LittleEndian.PutUint32(packet[8:], h.Round)
	binary.LittleEndian.PutUint16(packet[12:], uint16(h.Worker)) // -1 is fromAll
	binary.LittleEndian.PutUint16(packet[14:], uint16(h.Entries))
	binary.LittleEndian.PutUint64(packet[16:], h.Digest)
}

// refused returns the error of who has got the packet.
func (h *Header) refused(who string, kind error, why string) error {
	if why != "" {
		why = ": " + why
	}
	return fmt.Errorf("omni: %s of tensor %d, stream %d, round %d: %w%s", who, h.Tensor, h.Stream, h.Round, kind, why)
}

// entry is what a packet says of one column.
type entry struct {
	column int    // of the stream
	next   int32  // block, or none
	data   []byte // the current block, or a list of cutList; nil: zero
	listed bool
}

// put writes the current block, which is not nil.
func (e *entry) put(s *Shape, block []byte) {
	if e.listed {
		s.spread(block, e.data)
		return
	}
	copy(block, e.data)
}

// reader parses packets, with memory that it keeps.
type reader struct {
	list  []entry
	taken []uint64 // set of columns
}

// entries parses the body of packet, which Decode has accepted as h. current has
// the block that each column of its stream is at, none where it has ended. The
// result is valid until the next call.
func (r *reader) entries(s *Shape, h *Header, packet []byte, current []int32) ([]entry, error) {
	r.list = r.list[:0]
	if n := (len(current) + 63) / 64; len(r.taken) < n {
		r.taken = make([]uint64, n)
	}
	clear(r.taken)
	split := len(packet) - h.Entries*entryBytes
	body, table := packet[HeaderBytes:split], packet[split:]
	for i := range h.Entries {
		next, column, listed, err := s.parseEntry(binary.LittleEndian.Uint32(table[i*entryBytes:]))
		if err != nil {
			return nil, err
		}
		k := column - h.Stream*s.Columns
		switch {
		case k < 0 || k >= len(current):
			return nil, fmt.Errorf("entry %d is of column %d, which is not of stream %d", i, column, h.Stream)
		case r.taken[k/64]>>(k%64)&1 != 0:
			return nil, fmt.Errorf("column %d stands twice", k)
		case current[k] == none || next <= current[k]:
			return nil, fmt.Errorf("column %d is at block %d and says %d is next", k, current[k], next)
		}
		r.taken[k/64] |= 1 << (k % 64)
		e := entry{column: k, next: next, listed: listed}
		from, to := s.Grid.Range(int(current[k]), 1)
		switch {
		case i >= h.Blocks && listed:
			return nil, fmt.Errorf("block %d is not carried, and is a list", current[k])
		case i >= h.Blocks:
		case listed:
			if e.data, body, err = s.cutList(body, to-from); err != nil {
				return nil, fmt.Errorf("block %d: %w", current[k], err)
			}
		case to-from > len(body):
			return nil, fmt.Errorf("block %d has %d bytes, %d are left", current[k], to-from, len(body))
		default:
			e.data, body = body[:to-from:to-from], body[to-from:]
		}
		r.list = append(r.list, e)
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("%d bytes behind the last block", len(body))
	}
	return r.list, nil
}

// writer composes a packet: columns with blocks first, then those without.
type writer struct {
	shape  *Shape
	lister *lister
	packet []byte
	at     int
	h      Header
}

func newWriter(s *Shape, l *lister, packet []byte, h Header) writer {
	l.listed = l.listed[:0]
	return writer{shape: s, lister: l, packet: packet, at: HeaderBytes, h: h}
}

// block returns where the values of the next block go, which has n bytes.
func (w *writer) block(n int) []byte { return w.packet[w.at : w.at+n : w.at+n] }

// carry has the packet carry what was written to block, as a list where that is half as long.
func (w *writer) carry(block []byte) {
	n := len(block)
	if w.shape.Lists {
		n = w.lister.shorten(w.shape, block)
	}
	w.lister.listed = append(w.lister.listed, n < len(block))
	w.h.Blocks++
	w.at += n
}

// entry writes the next entry of the table, after all blocks.
func (w *writer) entry(column int, next int32) {
	v := w.shape.entryOf(next, w.h.Stream*w.shape.Columns+column)
	if w.h.Entries < w.h.Blocks && w.lister.listed[w.h.Entries] {
		v |= listedFlag
	}
	binary.LittleEndian.PutUint32(w.packet[w.at:], v)
	w.at += entryBytes
	w.h.Entries++
}

// finish writes the header and returns the size of the packet.
func (w *writer) finish() int {
	w.h.put(w.packet)
	return w.at
}
