package record

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/treerun/treerun/internal/status"
)

// At is where a recording begins, counted from the beginning of the rank's page in the same memory file.
const At = (status.Bytes + pageBytes - 1) / pageBytes * pageBytes

const pageBytes = 4096

// Limits of a recording.
const (
	MaxEvents  = 1 << 22 // places of the ring
	maxNames   = 512
	nameBytes  = 64
	maxPlanner = 64 << 10
	sizes      = 48 // sorts of lengths: by the number of bits
	eventBytes = 64
)

// memory is the head of a recording. The ring of events follows it. All fields have the same place on all
// processors.
type memory struct {
	count atomic.Uint64 // events so far
	named atomic.Uint64 // names so far
	again atomic.Uint64 // how often links were measured again, and plans were made for them
	plans atomic.Uint64 // bytes of planner
	_     [32]byte
	names [maxNames][nameBytes]byte // followed by zeros; the first is ""
	cells [status.Rows][sizes]Cell

	planner [maxPlanner]byte
}

// event is an encoded Event. Its first word is the number of the event, from 1, and a check of all words: an event that
// is being written is none.
type event [eventBytes / 8]uint64

// headBytes is the size of the head, in whole pages.
const headBytes = (int(unsafe.Sizeof(memory{})) + pageBytes - 1) / pageBytes * pageBytes

// Bytes returns the size of a recording with a ring of this size; 0 for none.
func Bytes(events int) int {
	if events <= 0 {
		return 0
	}
	return headBytes + events*eventBytes
}

// Cell has the totals of the calls of one sort and length. Any goroutine may change it, by its methods.
type Cell struct {
	calls, bytes, bus, busy, least, predicted, bound, waited int64
}

// Count adds calls that have begun.
func (c *Cell) Count(calls, bytes, bus int64) {
	atomic.AddInt64(&c.calls, calls)
	atomic.AddInt64(&c.bytes, bytes)
	atomic.AddInt64(&c.bus, bus)
}

// Spend adds the time of calls, with the part that was waited; predicted and bound are of the same calls, 0 where they
// are not known.
func (c *Cell) Spend(took, waited, predicted, bound time.Duration) {
	add(&c.busy, int64(took))
	add(&c.waited, int64(waited))
	add(&c.predicted, int64(predicted))
	add(&c.bound, int64(bound))
}

// add adds n, which is often 0, to a number.
func add(number *int64, n int64) {
	if n != 0 {
		atomic.AddInt64(number, n)
	}
}

// Best notes that a whole call took so long.
func (c *Cell) Best(took time.Duration) {
	for {
		least := atomic.LoadInt64(&c.least)
		if least > 0 && least <= int64(took) || atomic.CompareAndSwapInt64(&c.least, least, max(1, int64(took))) {
			return
		}
	}
}

// Writer writes the recording of this process. Its methods may be called concurrently. The nil *Writer records nothing.
type Writer struct {
	m      *memory
	ring   []event
	began  time.Time
	offset int64 // of the system's clock at began

	mu    sync.Mutex
	names map[string]Name
}

// NewWriter returns a Writer to b, which has Bytes zeros for this number of events, is aligned to 8 bytes, and is never
// released. It is nil for none.
func NewWriter(b []byte, events int) *Writer {
	if events <= 0 {
		return nil
	}
	b = b[:Bytes(events)]
	w := &Writer{m: (*memory)(unsafe.Pointer(&b[0])), began: time.Now(), offset: Clock(), names: map[string]Name{"": 0},
		ring: unsafe.Slice((*event)(unsafe.Pointer(&b[headBytes])), events)}
	w.m.named.Store(1)
	go populate(b) // else each 64th event would wait for a page
	return w
}

// Name returns the number of a name. A name is cut after some 60 bytes. Where there are too many names, the result is
// that of the last one, which stands for all others.
func (w *Writer) Name(s string) Name {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, known := w.names[s]; known {
		return n
	}
	n := Name(len(w.names))
	if n >= maxNames-1 {
		n, s = maxNames-1, others
	}
	w.names[s] = n
	copy(w.m.names[n][:nameBytes-1], s)
	w.m.named.Store(max(w.m.named.Load(), uint64(n)+1))
	return n
}

// SetPlanner sets the portable form of the planner of the calls of all ranks, in place of an earlier one. Too large a
// form is left out.
func (w *Writer) SetPlanner(form []byte) {
	if w == nil || len(form) > maxPlanner {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.plans.Store(0)
	copy(w.m.planner[:], form)
	w.m.plans.Store(uint64(len(form)))
}

// Cell returns the Cell of calls of a row of package status that have this number of bytes.
func (w *Writer) Cell(row, bytes int) *Cell { return &w.m.cells[row][sizeOf(bytes)] }

// Put writes an event.
func (w *Writer) Put(e *Event) {
	if w == nil {
		return
	}
	number := w.m.count.Add(1)
	w.ring[(number-1)%uint64(len(w.ring))] = e.encode(number)
}

// Replanned counts that there are plans for links that were measured again.
func (w *Writer) Replanned() {
	if w != nil {
		w.m.again.Add(1)
	}
}

// Head is a recording without its events.
type Head struct {
	Count  uint64   // events so far, with those that have been written over
	Places int      // of the ring
	Plans  uint64   // calls of Replanned
	Names  []string // by Name
	Totals []Total

	// Planner is the portable form of the planner of the calls of all ranks, of rank 0 only.
	Planner []byte
}

// Read reads the Head of a recording that another process writes, and may have damaged. What the process changes
// meanwhile may be from before or after the change.
func Read(r io.ReaderAt, events int) (*Head, error) {
	m := new(memory)
	if _, err := r.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m)), 0); err != nil {
		return nil, fmt.Errorf("read the recording of a rank: %w", err)
	}
	named := m.named.Load()
	if named == 0 {
		return nil, errNone
	}
	h := &Head{Count: m.count.Load(), Places: events, Plans: m.again.Load()}
	for i := range min(named, maxNames) {
		h.Names = append(h.Names, printable(m.names[i][:]))
	}
	h.Planner = slices.Clone(m.planner[:min(m.plans.Load(), maxPlanner)])
	for row := range m.cells {
		for size := range m.cells[row] {
			if c := &m.cells[row][size]; *c != (Cell{}) {
				h.Totals = append(h.Totals, Total{Row: row, Size: size, Calls: max(0, c.calls), Bytes: max(0, c.bytes),
					Bus: max(0, c.bus), Busy: max(0, c.busy), Least: max(0, c.least), Predicted: max(0, c.predicted),
					Bound: max(0, c.bound), Waited: max(0, c.waited)})
			}
		}
	}
	return h, h.Check()
}

// ReadEvents reads the events of a recording with a ring of events places from number from on, at most most of them,
// in the form of Decode. next is the number to continue with, which is above last, the number of the last event, when
// there are no more. Events that have been written over are left out, and so are those that are being written.
func ReadEvents(r io.ReaderAt, events int, from, last uint64, most int) (b []byte, next uint64, err error) {
	if last >= uint64(events) {
		from = max(from, last-uint64(events)+1)
	}
	from = max(from, 1)
	for ; from <= last && most > 0; most -= readAtOnce {
		place := (from - 1) % uint64(events)
		n := min(last-from+1, uint64(events)-place, uint64(most), readAtOnce)
		part := make([]event, n)
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), int(n)*eventBytes)
		if _, err := r.ReadAt(bytes, int64(headBytes)+int64(place)*eventBytes); err != nil {
			return nil, 0, fmt.Errorf("read the recording of a rank: %w", err)
		}
		for i := range part {
			if part[i].number() == from+uint64(i) && part[i].valid() {
				b = append(b, part[i].bytes()...)
			}
		}
		from += n
	}
	return b, from, nil
}

const readAtOnce = 1024 // events
