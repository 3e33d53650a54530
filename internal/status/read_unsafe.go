package status

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode"
	"unsafe"

	"github.com/treerun/treerun/internal/call"
)

// Rank is what the page of a rank had when it was read.
type Rank struct {
	Epoch, Rank, Size int // of its world; Size is 0 before it has one
	Phase             Phase
	Since             int64  // Unix time in nanoseconds of its beginning
	PID               int    // of the process that has the world
	Hidden            int    // number of communicators that the page does not show
	Waits             []byte // as in SetWaits; nil: none
	Comms             []Comm // the open ones; of ReadEnded also closed ones
}

// Comm is a communicator of a Rank.
type Comm struct {
	Name   string
	Size   int
	Closed bool      // no call will be made any more
	In     string    // the sort of the call under way, "" if there is none
	Latest []call.ID // collectives, the latest first, at most maxLatest
	Totals []Total   // of each sort of which there were calls
}

// Total is all calls of one sort.
type Total struct {
	Call           string
	Calls, Bytes   int64
	Moving, Waited time.Duration
}

// maxLatest is the number of a communicator's latest calls that Read returns.
const maxLatest = 32

// tries is how often a part of the page is read that the rank changes meanwhile.
const tries = 3

// Read reads a page that another process writes, and may have damaged: numbers and texts are valid, or there is an
// error. What the rank changes meanwhile may be from before or after the change.
func Read(page io.ReaderAt) (*Rank, error) { return readPage(page, false) }

// ReadEnded is Read of the page of a rank that has ended. Communicators that the rank had closed are there, too, unless
// a later one has the place.
func ReadEnded(page io.ReaderAt) (*Rank, error) { return readPage(page, true) }

func readPage(page io.ReaderAt, closed bool) (*Rank, error) {
	var h header
	for n := 0; ; n++ {
		if err := readAt(page, unsafe.Pointer(&h), unsafe.Sizeof(h), 0); err != nil {
			return nil, err
		}
		var again header
		const to = unsafe.Offsetof(again.used)
		if err := readAt(page, unsafe.Pointer(&again), to, 0); err != nil {
			return nil, err
		}
		if seq := h.waitsSeq.Load(); seq%2 == 0 && seq == again.waitsSeq.Load() || n == tries {
			break
		}
	}
	r := &Rank{Epoch: int(h.epoch.Load()), Rank: int(h.rank.Load()), Size: int(h.size.Load()),
		Phase: Phase(h.phase.Load()), Since: h.phaseSince.Load(), PID: int(h.pid.Load()), Hidden: int(h.hidden.Load())}
	if r.Size < 0 || r.Rank < 0 || r.Rank > r.Size || r.Epoch < 0 || r.Hidden < 0 || h.waitsBytes.Load() > maxWaits {
		return nil, fmt.Errorf("rank %d of %d in epoch %d, with waits of %d bytes: no page of a rank", r.Rank, r.Size,
			r.Epoch, h.waitsBytes.Load())
	}
	if h.waitsSeq.Load()%2 == 0 {
		r.Waits = slices.Clone(h.waits[:h.waitsBytes.Load()])
	}
	c := new(Calls)
	for i := range h.used {
		if h.used[i].Load() == 0 && !closed {
			continue
		}
		at := unsafe.Offsetof(memory{}.comms) + uintptr(i)*unsafe.Sizeof(*c)
		if err := readAt(page, unsafe.Pointer(c), unsafe.Sizeof(*c), at); err != nil {
			return nil, err
		}
		if c.size == 0 { // a place that was never used, and so are all behind it
			break
		}
		shown := c.comm()
		shown.Closed = h.used[i].Load() == 0
		r.Comms = append(r.Comms, shown)
	}
	return r, nil
}

// readAt fills the size bytes at p, which hold no pointers.
func readAt(page io.ReaderAt, p unsafe.Pointer, size, at uintptr) error {
	if _, err := page.ReadAt(unsafe.Slice((*byte)(p), size), int64(at)); err != nil {
		return fmt.Errorf("read the status of a rank: %w", err)
	}
	return nil
}

// comm returns what c shows.
func (c *Calls) comm() Comm {
	name, _, _ := bytes.Cut(c.name[:], []byte{0})
	out := Comm{Name: printable(string(name)), Size: int(c.size)}
	if c.Now > 0 && int(c.Now) <= Rows {
		out.In = RowNames[c.Now-1]
	}
	var latest []call.Header
	for _, h := range c.Log {
		if h.Seq > 0 {
			latest = append(latest, h)
		}
	}
	slices.SortFunc(latest, func(a, b call.Header) int {
		if a.Seq > b.Seq {
			return -1
		}
		return 1
	})
	for _, h := range latest[:min(len(latest), maxLatest)] {
		out.Latest = append(out.Latest, h.ID())
	}
	for i := range c.Rows {
		if row := &c.Rows[i]; row.Calls > 0 {
			out.Totals = append(out.Totals, Total{RowNames[i], row.Calls, max(0, row.Bytes),
				time.Duration(max(0, row.Moving.Load())), time.Duration(max(0, row.Waited.Load()))})
		}
	}
	return out
}

// printable replaces what cannot be printed: names come from users.
func printable(s string) string {
	return string(bytes.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, []byte(s)))
}
