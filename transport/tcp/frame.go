package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// version is the version of the frame format; ranks of different versions find out before they connect.
const version = 6

// The bytes of a connection are a sequence of frames. Each begins with a base of 24 bytes, all numbers little-endian:
//
//	 0  uint32  bytes that follow the base
//	 4  uint8   kind
//	 5  uint24  mark of the number at 16
//	 8  uint32  lane of the link
//	12  uint32  position: of a chunk on its link; or how many chunks of it the
//	            receiver has released
//	16  uint64  number of the set of links, of those that share the connection
//
// In a data frame, the call.Header of the chunk follows, 24 bytes, then the payload, and a tail of 4 bytes that
// differs from chunk to chunk: a payload in which bytes are missing or duplicated does not end with it. No part of a
// frame is used before it was checked.
const (
	frameMark  = 0x725400
	baseBytes  = 24
	callBytes  = 24
	tailBytes  = 4
	dataBytes  = baseBytes + callBytes // of a data frame, before its payload
	maxControl = 1024                  // bytes after the base, for all kinds but data
)

// kind is the type of a frame.
type kind uint8

const (
	kindData   kind = 1 + iota // a chunk
	kindCredit                 // chunks of a link that the receiver has released
	kindStatus                 // the latest calls of the sending rank
	kindFault                  // a fault that a rank reports, or that was decided
	kindClosed                 // the last frame of a set: the rank has closed its endpoint
)

// base is the beginning of a frame.
type base struct {
	set  uint64
	kind kind
	more int    // bytes that follow
	link uint32 // data, credit
	pos  uint32 // data, credit
}

// put writes b to the first baseBytes of to.
func (b *base) put(to []byte) {
	_ = to[baseBytes-1]
	binary.LittleEndian.PutUint32(to, uint32(b.more))
	binary.LittleEndian.PutUint32(to[4:], uint32(b.kind)|markOf(b.set)<<8)
	binary.LittleEndian.PutUint32(to[8:], b.link)
	binary.LittleEndian.PutUint32(to[12:], b.pos)
	binary.LittleEndian.PutUint64(to[16:], b.set)
}

// markOf returns the mark of the frames of a set, 24 bits. It tells a number of which bytes have changed from that of a
// set that this rank has closed.
func markOf(set uint64) uint32 { return frameMark ^ uint32(set*0x9e3779b97f4a7c15>>40) }

// parseBase reads the first baseBytes of from. An error wraps transport.ErrCorrupt; without one, the number of bytes
// that follow is allowed for the kind, with chunks of at most transport.MaxSlotBytes.
func parseBase(from []byte) (base, error) {
	_ = from[baseBytes-1]
	w := binary.LittleEndian.Uint32(from[4:])
	more := binary.LittleEndian.Uint32(from)
	b := base{kind: kind(w), link: binary.LittleEndian.Uint32(from[8:]), pos: binary.LittleEndian.Uint32(from[12:]),
		set: binary.LittleEndian.Uint64(from[16:])}
	if w>>8 != markOf(b.set) {
		return base{}, fmt.Errorf("%w: %x is not the beginning of a frame", transport.ErrCorrupt, from[:baseBytes])
	}
	low, high := 0, 0
	switch b.kind {
	case kindData:
		low, high = callBytes+tailBytes, callBytes+transport.MaxSlotBytes+tailBytes
	case kindStatus, kindFault:
		low, high = 1, maxControl
	case kindCredit, kindClosed:
	default:
		return base{}, fmt.Errorf("%w: frame of kind %d", transport.ErrCorrupt, b.kind)
	}
	if uint64(more) < uint64(low) || uint64(more) > uint64(high) {
		return base{}, fmt.Errorf("%w: frame of kind %d with %d bytes, want %d to %d", transport.ErrCorrupt, b.kind, more,
			low, high)
	}
	b.more = int(more)
	return b, nil
}

// putCall writes h to the first callBytes of to.
func putCall(to []byte, h *call.Header) {
	for i, w := range h.Words() {
		binary.LittleEndian.PutUint64(to[8*i:], w)
	}
}

// getCall reads what putCall wrote.
func getCall(from []byte) call.Header {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(from[8*i:]) }
	return call.HeaderOf([3]uint64{word(0), word(1), word(2)})
}

// tailOf returns the tail of the chunk at a position of a link.
func tailOf(link, pos uint32) uint32 { return (pos*0x9e3779b1 + link) ^ 0x6c696174 }

// putTail writes the tail to the first tailBytes of to.
func putTail(to []byte, link, pos uint32) { binary.LittleEndian.PutUint32(to, tailOf(link, pos)) }

// checkTail checks the first tailBytes of from.
func checkTail(from []byte, link, pos uint32) error {
	if got := binary.LittleEndian.Uint32(from); got != tailOf(link, pos) {
		return fmt.Errorf("%w: chunk %d of link %d ends with %08x, not %08x: bytes of it are lost or came twice",
			transport.ErrCorrupt, pos, link, got, tailOf(link, pos))
	}
	return nil
}

// appendControl appends a frame whose body is at most maxControl bytes.
func appendControl(to []byte, set uint64, k kind, body []byte) []byte {
	var head [baseBytes]byte
	(&base{set: set, kind: k, more: len(body)}).put(head[:])
	return append(append(to, head[:]...), body...)
}

// appendCredit appends a frame that reports released chunks of a link.
func appendCredit(to []byte, set uint64, link, released uint32) []byte {
	var head [baseBytes]byte
	(&base{set: set, kind: kindCredit, link: link, pos: released}).put(head[:])
	return append(to, head[:]...)
}
