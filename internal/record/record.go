// Package record is the memory in which a rank records its calls, its waits and the phases of its program, where the
// launcher wants that: a ring with the latest events, and a table with the totals of all calls by sort and length. It
// lies behind the page of package status in the same memory file. The rank writes with plain stores, and other
// processes read while it runs, while it is stopped and after its death.
//
// In a rank, a Writer writes; packages rank, collective and waits call it. On the rank's host, Read and ReadEvents read
// the file. Decode decodes the events, also on other hosts: a Recording has all of them.
//
// Times are nanoseconds of the clock of the host (Clock), which is the same for all of its processes.
package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
	"unicode"

	"github.com/treerun/treerun/internal/status"
)

// Name is the number of a name in a recording.
type Name uint16

// others is the name that stands for all that there was no room for.
const others = "(others)"

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	Call    Kind = iota + 1 // a call on a communicator
	Wait                    // for Peer, in the call that Label names
	Measure                 // of links, for a communicator
	Plan                    // a search for plans
	Make                    // of a communicator
	Join                    // rank.Init
	Renew                   // World.Renew
	Span                    // a phase of the program, which Label names
	kinds
)

// String returns a word for the kind.
func (k Kind) String() string {
	names := [kinds]string{Call: "call", Wait: "wait", Measure: "measuring", Plan: "planning", Make: "making communicator",
		Join: "joining", Renew: "renewing", Span: "span"}
	if k >= kinds {
		return ""
	}
	return names[k]
}

// Flags of an event.
const (
	Sampled uint8 = 1 << iota // the call stands for others of its sort, which are only counted
	Begun                     // the call has only begun: an event of the same Number has its end
	Resumed                   // the call has begun before: this is a Wait or a Test for it
	Failed
	Open     // the wait lasts; another event with the same Start is written at its end
	allFlags = Sampled | Begun | Resumed | Failed | Open
)

// Event is something that took time.
type Event struct {
	Kind      Kind
	Flags     uint8
	Row       uint8 // of a call: its sort, a row of package status
	Comm      Name  // the communicator, of a call or a wait
	Label     Name  // of a call: the algorithm; else see Kind
	Peer      int   // the launcher's number of the rank that a wait is for, or of the other end of a message; -1: none
	Start     int64
	Took      time.Duration
	Bytes     int64         // of a call
	Number    uint64        // of a call: on its communicator, 0 for messages
	Predicted time.Duration // of a call, 0 where it is not known
	Waited    time.Duration // of a call: the part of Took that was spent waiting, in microseconds
}

// Sort returns the name of the sort of a call.
func (e *Event) Sort() string { return status.RowNames[e.Row] }

// Total is the calls of one sort, whose lengths have the same number of bits. Calls and Bytes are exact. Of calls below
// 32 KiB, times are those of samples, multiplied.
type Total struct {
	Row, Size    int // see Sort and Least
	Calls, Bytes int64
	Bus          int64 // the bytes that would pass the narrowest link of a ring, in total: the basis of busbw
	Busy         int64 // nanoseconds in these calls
	Least        int64 // nanoseconds of the fastest
	Predicted    int64 // nanoseconds, in total; 0: not known
	Bound        int64 // nanoseconds at the highest rate that any plan could reach, in total; 0: not known
	Waited       int64 // nanoseconds of Busy
}

// Sort returns the name of the sort of the calls.
func (t *Total) Sort() string { return status.RowNames[t.Row] }

// From returns the lower limit of the lengths of the calls in bytes.
func (t *Total) From() int64 {
	if t.Size == 0 {
		return 0
	}
	return 1 << (t.Size - 1)
}

// sizeOf returns the Size of calls of this length.
func sizeOf(bytes int) int { return min(bits.Len64(uint64(max(bytes, 0))), sizes-1) }

var errNone = errors.New("the rank has recorded nothing: it has not called rank.Init")

// Check reports an error if h, which came from another process, cannot be used.
func (h *Head) Check() error {
	if h.Places < 1 || h.Places > MaxEvents || len(h.Names) < 1 || len(h.Names) > maxNames ||
		len(h.Totals) > status.Rows*sizes || len(h.Planner) > maxPlanner || h.Count >= 1<<(64-checkBits) {
		return fmt.Errorf("a recording of %d events, %d places, %d names, %d totals", h.Count, h.Places, len(h.Names),
			len(h.Totals))
	}
	for _, t := range h.Totals {
		if t.Row < 0 || t.Row >= status.Rows || t.Size < 0 || t.Size >= sizes ||
			min(t.Calls, t.Bytes, t.Bus, t.Busy, t.Least, t.Predicted, t.Bound, t.Waited) < 0 {
			return fmt.Errorf("a recording with the total %+v", t)
		}
	}
	for _, n := range h.Names {
		if len(n) > 3*nameBytes || strings.ContainsFunc(n, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("a recording with the name %.80q", n)
		}
	}
	return nil
}

// Name returns the text of a name.
func (h *Head) Name(n Name) string {
	if int(n) >= len(h.Names) {
		return others
	}
	return h.Names[n]
}

// checkBits is the size of the check in the first word of an event; the number of the event is above it.
const checkBits = 24

// encode encodes e as event number n.
func (e *Event) encode(n uint64) (v event) {
	waited := uint64(min(max(e.Waited.Microseconds(), 0), 1<<32-1))
	v = event{n << checkBits, uint64(e.Start), uint64(e.Took), uint64(e.Bytes), e.Number, uint64(e.Predicted),
		uint64(e.Kind) | uint64(e.Flags)<<8 | uint64(e.Row)<<16 | uint64(e.Comm)<<32 | uint64(e.Label)<<48,
		uint64(uint32(int32(e.Peer))) | waited<<32}
	v[0] |= v.check()
	return v
}

// check returns the check of the words of v.
func (v *event) check() uint64 {
	sum := v.number()
	for _, word := range v[1:] {
		sum = bits.RotateLeft64(sum, 5) ^ word
	}
	const mix = 0x9e3779b97f4a7c15
	return sum * mix >> (64 - checkBits)
}

func (v *event) number() uint64 { return v[0] >> checkBits }

func (v *event) valid() bool {
	const mask = 1<<checkBits - 1
	_, ok := v.decode()
	return ok && v.number() > 0 && v[0]&mask == v.check()
}

// bytes returns v in the form of Decode.
func (v *event) bytes() (b []byte) {
	for _, word := range v {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// decode returns the Event that v encodes, and whether it is one.
func (v *event) decode() (Event, bool) {
	e := Event{Kind: Kind(v[6]), Flags: uint8(v[6] >> 8), Row: uint8(v[6] >> 16), Comm: Name(v[6] >> 32),
		Label: Name(v[6] >> 48), Peer: int(int32(v[7])), Start: int64(v[1]), Took: time.Duration(v[2]),
		Bytes: int64(v[3]), Number: v[4], Predicted: time.Duration(v[5]),
		Waited: time.Duration(v[7]>>32) * time.Microsecond}
	const longest = 1 << 61
	ok := e.Kind > 0 && e.Kind < kinds && e.Flags&^allFlags == 0 && int(e.Row) < status.Rows && e.Peer >= -1 &&
		e.Start >= 0 && e.Start < longest && e.Took >= 0 && e.Took < longest && e.Bytes >= 0 && e.Predicted >= 0
	return e, ok
}

// Decode decodes events that ReadEvents has read, perhaps on another host.
func Decode(b []byte) ([]Event, error) {
	if len(b)%eventBytes != 0 {
		return nil, fmt.Errorf("events of %d bytes, want a multiple of %d", len(b), eventBytes)
	}
	all := make([]Event, 0, len(b)/eventBytes)
	for ; len(b) > 0; b = b[eventBytes:] {
		var v event
		for i := range v {
			v[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		e, _ := v.decode()
		if !v.valid() {
			return nil, fmt.Errorf("event %d is damaged", v.number())
		}
		all = append(all, e)
	}
	return all, nil
}

// Time returns a time on the clock of a recording. w is not nil.
func (w *Writer) Time(t time.Time) int64 { return w.offset + int64(t.Sub(w.began)) }

// Phase begins an event of a kind that is no call, and returns the function that ends and writes it.
func (w *Writer) Phase(kind Kind, comm, label string) (end func()) {
	if w == nil {
		return func() {}
	}
	began := time.Now()
	e := Event{Kind: kind, Comm: w.Name(comm), Label: w.Name(label), Peer: -1, Start: w.Time(began)}
	return func() {
		e.Took = time.Since(began)
		w.Put(&e)
	}
}

// Bus returns the bytes that count for busbw of a call on n ranks, as bench and nccl-tests count them.
func Bus(row, bytes, n int) int64 { return int64(status.KindOf(row).BusFactor(n) * float64(bytes)) }

// printable returns the text before the first zero of b without unprintable characters: names come from users.
func printable(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(string(b), "?"))
}

// Recording is the recording of one process of a rank, complete or as far as it was read.
type Recording struct {
	Head
	Events []Event // in the order of their ends
}

// Lost returns the number of events that are not among Events: they were written over, or could not be read.
func (r *Recording) Lost() uint64 { return r.Count - min(r.Count, uint64(len(r.Events))) }
