// Package ring is one FIFO of bounded slots between one sender and one
// receiver, over plain memory: two small state machines, Tx and Rx, that never
// wait, never allocate and make no system call.
//
// It knows neither where the memory came from nor how a rank sleeps; these are matters of package segment and the
// transports, and only they import it. It is tested on heap memory, where the race detector sees everything.
//
// # Memory
//
// The control area begins with the receiver's line, the number of slots it has
// released, then one cache line per slot:
//
//	 0  uint32  publication word: position of the chunk + 1
//	 4  uint32  payload bytes; the highest bit is set when they lie elsewhere,
//	            the next one when that is in the sender's own memory
//	 8  24 bytes call.Header
//	32  32 bytes payload, if it is no larger than transport.MaxInline, or
//	    uint64  where else it lies: bytes from the start of the shared memory,
//	            or its address in the sender's; then PayloadLine gives out the rest
//
// The data area holds the larger payloads, SlotBytes per slot. So a small
// message moves one cache line, and the lines of all slots lie together: links
// that carry only small messages touch few pages.
//
// There may be more lines than slots: a sender may be that many small messages
// ahead of its receiver. The slot of a position is that of the position so many
// slots before. It is free when the latest payload in it has been released.
//
// # Order
//
// The sender writes payload, header and length, then stores the publication word; the receiver loads that word and
// touches the rest only when it holds the expected position. The receiver is done with a slot before it stores the
// number of released slots; the sender loads that number before it reuses a slot. Each store of these words is a
// release and each load an acquire; those of Commit and Release are also sequentially consistent, as sync/atomic's
// operations are, so that later loads can decide about a wake-up. Positions count from 0 and are published modulo
// 1<<32; the number of lines divides that, so a line never sees the same word on two successive laps.
package ring

import (
	"fmt"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/transport"
)

const (
	lineBytes = 64
	// headBytes keeps the receiver's line apart from the first slot's by two
	// lines, because processors fetch lines in pairs.
	headBytes = 2 * lineBytes

	offLength = 4
	offHeader = 8
	offInline = 32
	offTarget = 40 // see PayloadLine
	offState  = 48

	elsewhere = 1 << 31 // in the length: the payload is another FIFO's, or a heap's
	private   = 1 << 30 // in the length: the payload is in the sender's own memory
)

// ControlBytes is the size of the control area of a FIFO, in bytes, a multiple
// of 128.
func ControlBytes(slots int) int {
	return (headBytes + lines(slots)*lineBytes + 127) &^ 127
}

// A FIFO of manySlots or more has at least smallAhead lines: a receiver that is behind finds small messages in lines
// that the sender does not write at the moment, and the sender waits less often. 100 messages of 8 B, each of which is
// probed for and received, take 24 us on an AMD EPYC with as many lines, and 40 with 8.
const (
	manySlots  = 8
	smallAhead = 32
)

// lines returns the number of lines of a FIFO of so many slots.
func lines(slots int) int {
	if slots < manySlots {
		return slots
	}
	return max(slots, smallAhead)
}

// geometry is the part of a FIFO that both ends know.
type geometry struct {
	ctl, data []byte
	slots     uint32
	lines     uint32
	slotBytes int
}

// newGeometry checks the sizes, which come from a validated Layout and this package's own arithmetic: a mistake here is
// a bug.
func newGeometry(ctl, data []byte, slots, slotBytes int) geometry {
	switch {
	case slots < 2 || slots&(slots-1) != 0 || slotBytes < lineBytes:
		panic(fmt.Sprintf("ring: %d slots of %d bytes", slots, slotBytes))
	case len(ctl) < ControlBytes(slots) || len(data) < slots*slotBytes:
		panic(fmt.Sprintf("ring: %d+%d bytes of memory for %d slots of %d bytes", len(ctl), len(data), slots, slotBytes))
	case !aligned(ctl, 8):
		panic("ring: control area is not aligned to 8 bytes")
	}
	return geometry{ctl: ctl, data: data, slots: uint32(slots), lines: uint32(lines(slots)), slotBytes: slotBytes}
}

// line returns the control line of the slot at position pos.
func (g *geometry) line(pos uint32) []byte {
	o := headBytes + int(pos&(g.lines-1))*lineBytes
	return g.ctl[o : o+lineBytes : o+lineBytes]
}

// window returns the n payload bytes of the slot at position pos. Precondition:
// n <= slotBytes.
func (g *geometry) window(pos uint32, n int) []byte {
	if n <= transport.MaxInline {
		return g.line(pos)[offInline : offInline+n : offInline+n]
	}
	o := int(pos&(g.slots-1)) * g.slotBytes
	return g.data[o : o+n : o+n]
}

// Tx is the sending end. One goroutine owns it.
type Tx struct {
	geometry
	pos  uint32 // position of the next chunk
	head uint32 // released slots at the last load
	n    int    // bytes reserved; -1: none

	sent uint64   // pos, of 64 bits
	used []uint64 // by slot: the number of released chunks from which on its memory is free
}

// NewTx makes the sending end over the control and data areas of a FIFO, both
// zero at first. Precondition: the sizes fit (else it panics).
func NewTx(ctl, data []byte, slots, slotBytes int) Tx {
	return Tx{geometry: newGeometry(ctl, data, slots, slotBytes), n: -1, used: make([]uint64, slots)}
}

// TryReserve returns the window of the next slot cut to n bytes, or false when
// all slots are taken; for a small message, all lines. An error wraps transport.ErrCorrupt.
func (t *Tx) TryReserve(n int) ([]byte, bool, error) {
	if uint(n) > uint(t.slotBytes) {
		return nil, false, fmt.Errorf("payload of %d bytes, slots hold %d", n, t.slotBytes)
	}
	if !t.free(n) {
		head := loadWord(t.ctl, 0)
		if t.pos-head > t.lines {
			return nil, false, fmt.Errorf("%w: receiver released %d slots of %d sent", transport.ErrCorrupt, head, t.pos)
		}
		t.head = head
		if !t.free(n) {
			return nil, false, nil
		}
	}
	t.n = n
	return t.window(t.pos, n), true, nil
}

// free reports whether the next line is free and, for a payload of n bytes that is not in the line, the memory of its
// slot. So as many of these may be under way as there are slots, whatever other chunks the receiver has not released.
func (t *Tx) free(n int) bool {
	ahead := t.pos - t.head
	return ahead < t.lines && (inLine(n) || t.sent-uint64(ahead) >= t.used[t.pos&(t.slots-1)])
}

// inLine reports whether a payload of n bytes is in its control line. One of 0 bytes is not: it may be lent, and then
// passes through the slot.
func inLine(n int) bool { return n > 0 && n <= transport.MaxInline }

// Commit publishes the reserved slot under header h. Precondition: TryReserve
// returned true and nothing was committed since (else it panics).
//
// Its last action is a sequentially consistent store: later loads of the caller are executed after the slot has become
// visible.
func (t *Tx) Commit(h *call.Header) {
	line := t.fill(h, uint32(t.n))
	storeWord(line, 0, t.pos)
	t.claimNext(h)
}

// Post is Commit, except that it does not order later loads.
func (t *Tx) Post(h *call.Header) {
	line := t.fill(h, uint32(t.n))
	publishWord(line, 0, t.pos)
	t.claimNext(h)
}

// fill writes header and length of the reserved slot, ends the reservation, and returns the slot's line, still to be
// published.
func (t *Tx) fill(h *call.Header, length uint32) []byte {
	if t.n < 0 {
		panic("ring: Commit or Post without a reserved slot")
	}
	line := t.line(t.pos)
	putHeader(line, length, h)
	t.sent++
	if length > transport.MaxInline { // in a slot or, by the flag, elsewhere: the receiver does not hold it
		t.used[t.pos&(t.slots-1)] = t.sent
	}
	t.pos++
	t.n = -1
	return line
}

// claimNext brings the line of the next slot, if it is free, into this core's cache by writing a value without meaning
// to it: it was read last by another core, from where it would have to come when the next chunk is due.
// Where this rank may send again before the receiver has looked, it only requests the line: its next fence would wait
// for that store. Broadcasts of 8 B take 0.22 us in place of 0.32. Where both wait for each other the store is quicker,
// AllReduce 0.44 in place of 0.47.
func (t *Tx) claimNext(h *call.Header) {
	switch {
	case t.pos-t.head >= t.lines:
	case h.Kind().OneWay():
		cpu.PrefetchWrite(&t.line(t.pos)[0])
	default:
		putLength(t.line(t.pos), 0)
	}
}

// Reserved returns the window that TryReserve returned last, nil when there is none, and the position of its slot.
func (t *Tx) Reserved() ([]byte, uint32) {
	if t.n < 0 {
		return nil, 0
	}
	return t.window(t.pos, t.n), t.pos
}

// PostAt publishes, in the reserved slot, n bytes that begin at byte at of the memory that Rx knows as shared, and
// returns the slot's position. Precondition and order are those of Post.
func (t *Tx) PostAt(h *call.Header, at, n int) (pos uint32) {
	return t.postPlace(h, uint64(at), n, elsewhere)
}

// PostPrivate is PostAt for n bytes at an address of the sender's own memory.
func (t *Tx) PostPrivate(h *call.Header, address uint64, n int) (pos uint32) {
	return t.postPlace(h, address, n, private)
}

// postPlace posts n bytes at a place. flag is added to the length, which is below it (else it panics).
func (t *Tx) postPlace(h *call.Header, at uint64, n int, flag uint32) (pos uint32) {
	if uint(n) >= uint(flag) {
		panic(fmt.Sprintf("ring: payload of %d bytes, at most %d are possible", n, flag-1))
	}
	pos = t.pos
	line := t.fill(h, uint32(n)|flag)
	putPlace(line, at)
	publishWord(line, 0, t.pos)
	return pos
}

// Free reports whether the receiver has released the slot at position pos, which was committed before. TryReserve
// checks the value that the receiver wrote into the released counter.
func (t *Tx) Free(pos uint32) bool {
	if int32(t.head-pos) > 0 {
		return true
	}
	return int32(loadWord(t.ctl, 0)-pos) > 0
}

// Oldest returns the position of the oldest slot that the receiver has not released,
// that of the next one when there is none.
func (t *Tx) Oldest() uint32 {
	if head := loadWord(t.ctl, 0); t.pos-head <= t.lines {
		return head
	}
	return t.pos // TryReserve will report that the counter is corrupt
}

// Next returns the position of the next slot.
func (t *Tx) Next() uint32 { return t.pos }

// Rx is the receiving end. One goroutine owns it.
type Rx struct {
	geometry
	shared Shared // returns payloads that lie elsewhere
	pos    uint32 // position of the oldest unread chunk
	lapped bool   // every line has been used at least once
	peeked bool

	inline  bool   // the payload peeked at is in its control line
	private bool   // it is in the sender's own memory
	address uint64 // its address there
	length  int    // its length in bytes
}

// Shared returns the n bytes at byte at of the memory that holds payloads posted with PostAt. Both numbers come from
// the peer: where there is no such memory the error wraps transport.ErrCorrupt.
type Shared func(at uint64, n int) ([]byte, error)

// NewRx makes the receiving end over the same areas as NewTx.
func NewRx(ctl, data []byte, shared Shared, slots, slotBytes int) Rx {
	return Rx{geometry: newGeometry(ctl, data, slots, slotBytes), shared: shared}
}

// TryPeek returns the payload of the oldest unread chunk and copies its header to h, or returns false when there is
// none. An error wraps transport.ErrCorrupt. A hostile peer may write to the window while it is read, but cannot change
// its bounds. If Private reports true there is no window: the payload is still to be read.
func (r *Rx) TryPeek(h *call.Header) ([]byte, bool, error) {
	line := r.line(r.pos)
	if w := loadWord(line, 0); w != r.pos+1 {
		return nil, false, r.checkEmpty(w)
	}
	n := getHeader(line, h)
	r.private, r.inline = false, n <= transport.MaxInline
	if n&elsewhere != 0 {
		return r.peekElsewhere(n&^elsewhere, getPlace(line))
	}
	if n&private != 0 {
		err := r.peekPrivate(n&^private, getPlace(line))
		return nil, err == nil, err
	}
	if int64(n) > int64(r.slotBytes) {
		return nil, false, fmt.Errorf("%w: payload of %d bytes in a slot of %d", transport.ErrCorrupt, n, r.slotBytes)
	}
	r.peeked = true
	return r.window(r.pos, int(n)), true, nil
}

// peekPrivate is TryPeek for n bytes in the sender's own memory.
func (r *Rx) peekPrivate(n uint32, address uint64) error {
	if n <= transport.MaxInline || address+uint64(n) < address {
		return fmt.Errorf("%w: payload of %d bytes at %#x of the sender's memory", transport.ErrCorrupt, n, address)
	}
	r.peeked = true
	r.private, r.address, r.length = true, address, int(n)
	return nil
}

// Window returns n bytes of the slot of the last TryPeek, whose payload lies
// elsewhere; nil where they do not fit.
func (r *Rx) Window(n int) []byte {
	if n > r.slotBytes {
		return nil
	}
	return r.window(r.pos, n)
}

// peekElsewhere is TryPeek for n bytes at byte at of the shared memory.
func (r *Rx) peekElsewhere(n uint32, at uint64) ([]byte, bool, error) {
	if n == 0 || r.shared == nil {
		return nil, false, fmt.Errorf("%w: payload of %d bytes at %d of shared memory", transport.ErrCorrupt, n, at)
	}
	b, err := r.shared(at, int(n))
	r.peeked = err == nil
	return b, r.peeked, err
}

// Private reports whether the payload of the last TryPeek lies in the sender's own memory, with its address there and
// its length in bytes.
func (r *Rx) Private() (address uint64, n int, is bool) { return r.address, r.length, r.private }

// MayHold reports whether the slot of the last TryPeek may be held: its payload is in its control line, and there are
// more of these than slots, so that a sender has its slots meanwhile.
func (r *Rx) MayHold() bool { return r.inline && r.lines > r.slots }

// Slot returns the number of the slot at position pos.
func (g *geometry) Slot(pos uint32) int { return int(pos & (g.slots - 1)) }

// Room returns the part of the data area that belongs to the slot at position pos.
func (g *geometry) Room(pos uint32) []byte {
	o := g.Slot(pos) * g.slotBytes
	return g.data[o : o+g.slotBytes : o+g.slotBytes]
}

// Next returns the position of the oldest unread chunk.
func (r *Rx) Next() uint32 { return r.pos }

// checkEmpty reports an error unless w is the word of an unpublished slot: the word of the lap before, or zero on the
// first lap.
func (r *Rx) checkEmpty(w uint32) error {
	var want uint32
	if r.lapped {
		want = r.pos + 1 - r.lines
	}
	if w != want {
		return fmt.Errorf("%w: slot word %d where %d or %d is due", transport.ErrCorrupt, w, want, r.pos+1)
	}
	return nil
}

// Release gives the slot of the last TryPeek back. Precondition: TryPeek
// returned true and nothing was released since (else it panics). As with
// Commit, its last action is a sequentially consistent store.
func (r *Rx) Release() {
	r.next()
	storeWord(r.ctl, 0, r.pos)
}

// Drop is Release, except that it does not order later loads.
func (r *Rx) Drop() {
	r.next()
	publishWord(r.ctl, 0, r.pos)
}

// Hold is Release, except that the sender learns of it by a later Release or Drop.
func (r *Rx) Hold() { r.next() }

func (r *Rx) next() {
	if !r.peeked {
		panic("ring: Release without a peeked slot")
	}
	r.peeked = false
	r.pos++
	if r.pos&(r.lines-1) == 0 {
		r.lapped = true
	}
}
