// Package segment is the memory that the ranks of one Endpoint set have in
// common, and the part of transport.Endpoint that needs nothing but that
// memory: the control board (status of every rank, closed flags, the fault
// record, the words of the bells) and the FIFOs.
//
// It does not know where the memory came from or how a rank sleeps: package
// mem gives it heap memory and wakes goroutines, package shm gives it a shared
// mapping and wakes processes. Only those two import it. Whatever it reads is
// checked, since a peer that went wrong may have written anything.
package segment

import (
	"crypto/sha256"
	"fmt"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

// version is that of the memory layout; it is part of the digest, so that
// ranks of different builds find out.
const version = 8

// Areas of the board, in bytes. Everything that one rank writes often has its
// own pair of cache lines, because processors fetch lines in pairs.
const (
	pageBytes  = 4096
	heapAlign  = pageBytes
	headBytes  = 256 // the words that elect the report and the decision
	offFault   = 128
	rankBytes  = bellBytes + statusBytes + elections*faultBytes
	bellBytes  = 128 // bell word; at offClosed the closed flag: both written rarely
	offClosed  = 64
	offStatus  = bellBytes
	offRecord  = offStatus + statusBytes
	maxSegment = 1 << 46 // bytes

	statusBytes = 512 // number of publications; from 64 on the calls
	faultBytes  = 640 // kind, rank, length, text

	reported  = 0 // the first fault that a rank of the segment reported
	decided   = 1 // the fault of a set of which these ranks are a part
	elections = 2
)

// Map says where in the segment everything lies. It follows from the Layout
// alone, so that every rank computes the same one. The order of Layout.Links
// does not matter.
type Map struct {
	Layout transport.Layout
	Digest [sha256.Size]byte // of the Layout and the version of this package
	Bytes  int               // what every rank maps from the start, a multiple of the page size
	Total  int               // with the heaps of all ranks behind it, of which parts are there: see heap.go

	// ControlBytes is how much of it, at its beginning, every call touches: the board
	// and the control areas of all FIFOs. It is a multiple of the page size.
	ControlBytes int

	ctlBytes int // per FIFO
	dataSize int // per FIFO, page aligned
}

// fifo holds the offsets of one FIFO's areas.
type fifo struct{ ctl, data int }

// NewMap computes the places for a Layout.
func NewMap(l transport.Layout) (*Map, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	l.Links = l.Sorted()
	m := &Map{
		Layout:   l,
		Digest:   l.Digest(version),
		ctlBytes: ring.ControlBytes(l.Slots),
		dataSize: roundUp(l.Slots*l.SlotBytes, pageBytes),
	}
	board := headBytes + l.Size*rankBytes
	if len(l.Links) > (maxSegment-board)/(m.ctlBytes+m.dataSize+pageBytes) {
		return nil, fmt.Errorf("transport: %d links of %d slots of %d bytes do not fit one segment of %d bytes",
			len(l.Links), l.Slots, l.SlotBytes, maxSegment)
	}
	m.ControlBytes = roundUp(board+len(l.Links)*m.ctlBytes, pageBytes)
	m.Bytes = roundUp(m.ControlBytes+len(l.Links)*m.dataSize, heapAlign)
	m.Total = m.Bytes + l.MemberCount()*l.HeapBytes
	return m, nil
}

// fifo returns the places of the i-th FIFO.
func (m *Map) fifo(i int) fifo {
	return fifo{ctl: headBytes + m.Layout.Size*rankBytes + i*m.ctlBytes, data: m.ControlBytes + i*m.dataSize}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (m *Map) rank(b []byte, r int) []byte {
	o := headBytes + r*rankBytes
	return b[o : o+rankBytes : o+rankBytes]
}
