// Package segment is the memory that the ranks of one Endpoint set have in
// common, and the part of transport.Endpoint that needs nothing but that
// memory: the control board (status of every rank, closed flags, the fault
// record, the words of the bells) and the FIFOs.
//
// It does not know where the memory came from or how a rank sleeps: package shm gives it a shared mapping and wakes
// ranks, and is the only package that imports it. Everything that it reads is checked, since a faulty peer may have
// written anything.
package segment

import (
	"crypto/sha256"
	"fmt"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

// version is the version of the memory layout; it is part of the digest, so that ranks of different builds find out.
const version = 11

// Areas of the board, in bytes. Everything that one rank writes often has its
// own pair of cache lines, because processors fetch lines in pairs.
const (
	pageBytes  = 4096
	headBytes  = 256 // the words that elect the report and the decision
	offFault   = 128
	rankBytes  = bellBytes + statusBytes + elections*faultBytes
	bellBytes  = 128 // bell word; at offClosed the closed flag, and the core: written rarely
	offClosed  = 64
	offSends   = offClosed + 4
	offCore    = offClosed + 8
	offStatus  = bellBytes
	offRecord  = offStatus + statusBytes
	maxSegment = 1 << 62 // bytes

	statusBytes = 512 // number of publications; from 64 on the calls
	faultBytes  = 640 // kind, rank, length, text

	reported  = 0 // the first fault that a rank of the segment reported
	decided   = 1 // the fault of a set of which these ranks are a part
	elections = 2
)

// Map describes the places of all areas in the segment. It follows from the Layout alone, so that every rank computes
// the same one.
type Map struct {
	Layout transport.Layout
	Digest [sha256.Size]byte // of the Layout and the version of this package

	// The board, which every rank maps from the start; the FIFOs, and the heaps of all ranks, of which each rank maps only
	// the parts that it uses: see open and heap.go. All are multiples of the page size.
	Bytes int // of the board
	Heaps int // where the heaps begin
	Ends  int // where the heaps end, and the rooms for other segments begin: see rooms.go
	Total int

	ctlBytes  int // of a FIFO's control area
	ctlSpace  int // room for the control area, whole pages
	fifoBytes int
}

// NewMap computes the places for a Layout.
func NewMap(l transport.Layout) (*Map, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	m := &Map{
		Layout:   l,
		Digest:   l.Digest(version),
		Bytes:    roundUp(headBytes+l.Size*rankBytes, pageBytes),
		ctlBytes: ring.ControlBytes(l.Slots),
	}
	m.ctlSpace = roundUp(m.ctlBytes, pageBytes)
	m.fifoBytes = m.ctlSpace + roundUp(l.Slots*l.SlotBytes, pageBytes)
	n := l.MemberCount()
	if n*n > (maxSegment-m.Bytes)/transport.MaxLanes/m.fifoBytes {
		return nil, fmt.Errorf("transport: links of %d slots of %d bytes between %d ranks do not fit one segment of %d bytes",
			l.Slots, l.SlotBytes, n, maxSegment)
	}
	m.Heaps = m.Bytes + n*n*transport.MaxLanes*m.fifoBytes
	m.Ends = m.Heaps + n*l.HeapBytes
	m.Total = m.Ends + m.wordBytes() + m.Rooms()*m.Ends
	return m, nil
}

// fifo returns the place of a FIFO: every possible link has one, so that both ends know it without communication. Most
// are never used, and take no memory.
func (m *Map) fifo(k transport.Link) int {
	src, dst := m.Layout.MemberIndex(k.Src), m.Layout.MemberIndex(k.Dst)
	return m.Bytes + ((src*m.Layout.MemberCount()+dst)*transport.MaxLanes+k.Lane)*m.fifoBytes
}

// areas returns the two areas of a FIFO, whose memory is b. Control areas of different links lie
// on different lines of a cache.
func (m *Map) areas(k transport.Link, b []byte) (ctl, data []byte) {
	at := (k.Lane + k.Src + k.Dst) % ((m.ctlSpace-m.ctlBytes)/128 + 1) * 128
	return b[at : at+m.ctlBytes], b[m.ctlSpace:]
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (m *Map) rank(b []byte, r int) []byte {
	o := headBytes + r*rankBytes
	return b[o : o+rankBytes : o+rankBytes]
}

// Store is where the FIFOs and heaps of a segment are. Offsets are bytes from the start of
// the segment. Its methods may be called concurrently.
type Store interface {
	// Map returns the n bytes at an offset: the same memory in every process, or in
	// every Endpoint of one. They stay as long as the Endpoint can be reached.
	Map(from, n int) ([]byte, error)

	// Allocate puts zero memory behind b, which is part of a result of Map and begins at that offset.
	Allocate(from int, b []byte) error

	// Deallocate removes the memory behind b, which is zero afterwards.
	Deallocate(from int, b []byte) error
}
