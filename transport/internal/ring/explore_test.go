//go:build explore

package ring

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// Kinds of chunks.
const (
	inline  = iota // in the line
	slotted        // in the slot
	shared         // elsewhere in the shared memory
	own            // in the sender's own memory
	kinds
)

// scene describes the actions of two or three ends, and the events meanwhile.
type scene struct {
	name   string
	slots  int
	lines  int // 0: as many as slots
	chunks int
	from   uint32 // the first position
	events func(w *world)
	sender func(w *world) // nil means send
	plain  bool           // all chunks are inline
	early  bool           // the receiver releases before it reads
	loose  bool           // contents are not checked
}

// world is one run.
type world struct {
	*Interleaving
	scene
	ctl, data, heap []byte
	tx              Tx
	rx              Rx
	sending         *Thread
	receiving       *Thread
	gone            bool // one end has died, or there is a fault
}

const (
	slotBytes = 64
	heapBytes = 8
)

// kindOf, sizeOf and headerOf return the properties of chunk i.
func (s *scene) kindOf(i int) int {
	if s.plain {
		return inline
	}
	return i % kinds
}

func (s *scene) sizeOf(i int) int { return [kinds]int{2, 40, 2, 40}[s.kindOf(i)] }

func headerOf(i int) call.Header {
	return call.Header{Seq: uint64(i) + 1, Count: uint64(i) << 40, What: call.What(uint8(i+1), 0, 0, 0, int32(-i))}
}

// byteOf returns the first or the last byte of chunk i; those between are not checked.
func byteOf(i, k int) byte { return byte(16*(i+1) + k) }

func (s scene) program() Program {
	return func(x *Interleaving) {
		running = nil // the preparation of the run is not explored
		w := &world{Interleaving: x, scene: s, heap: make([]byte, heapBytes)}
		w.ctl, w.data, _ = memory(max(s.slots, s.lines), slotBytes)
		w.tx, w.rx = NewTx(w.ctl, w.data, s.slots, slotBytes), NewRx(w.ctl, w.data, w.elsewhere, s.slots, slotBytes)
		if s.lines > 0 {
			w.tx.lines, w.rx.lines = uint32(s.lines), uint32(s.lines)
		}
		if s.from != 0 {
			jump(&w.tx, &w.rx, s.from)
		}
		running = x
		x.State(func(b []byte) []byte {
			return append(append(append(append(b, w.ctl...), w.data...), w.heap...), byte(number(w.gone)))
		})
		send := w.send
		if s.sender != nil {
			send = func() { s.sender(w) }
		}
		w.sending = x.Go("sender", send)
		w.receiving = x.Go("receiver", w.receive)
		if s.events != nil {
			s.events(w)
		}
	}
}

// elsewhere is a Shared for the heap.
func (w *world) elsewhere(at uint64, n int) ([]byte, error) {
	if all := uint64(len(w.heap)); at > all || uint64(n) > all-at {
		return nil, fmt.Errorf("%w: %d bytes at %d", transport.ErrCorrupt, n, at)
	}
	return w.heap[at : at+uint64(n)], nil
}

// over reports whether the other end has stopped.
func (w *world) over() bool {
	w.Step("look for the end of the peer")
	w.Saw(uint64(number(w.gone)))
	return w.gone
}

// write fills a window: its first and its last byte.
func (w *world) write(b []byte, i int) {
	for k, at := range []int{0, len(b) - 1} {
		w.Step("write payload")
		w.Saw(uint64(byteOf(i, k)))
		b[at] = byteOf(i, k)
	}
}

// reserve waits for the window of chunk i; it returns nil when the peer has died, or wrote nonsense.
func (w *world) reserve(i, n int) []byte {
	for {
		w.Forget("reserve", i, int(w.tx.pos), int(w.tx.head))
		b, ok, err := w.tx.TryReserve(n)
		switch {
		case err != nil && w.loose && errors.Is(err, transport.ErrCorrupt):
			return nil
		case err != nil:
			w.Fail("chunk %d: %v", i, err)
		case ok && n > 0 && !inside(b, w.ctl, w.data):
			w.Fail("chunk %d: a window elsewhere", i)
		case ok:
			return b
		case w.over():
			return nil
		}
	}
}

// send sends chunks of all kinds.
func (w *world) send() {
	for i := range w.chunks {
		n := w.sizeOf(i)
		kind := w.kindOf(i)
		reserved := n
		if kind == shared || kind == own {
			reserved = 0
		}
		b := w.reserve(i, reserved)
		if b == nil {
			return
		}
		h := headerOf(i)
		switch kind {
		case inline:
			w.write(b, i)
			w.tx.Commit(&h)
		case slotted:
			w.write(b, i)
			w.tx.Post(&h)
		case shared:
			at := 2 * (i / kinds) % heapBytes
			w.write(w.heap[at:at+2], i)
			w.tx.PostAt(&h, at, n)
		case own:
			w.tx.PostPrivate(&h, uint64(i)<<32, n)
		}
	}
	// The last chunk has arrived when its slot is free.
	for {
		w.Forget("free", int(w.tx.pos))
		if w.tx.Free(w.tx.pos-1) || w.over() {
			return
		}
	}
}

// receive takes all chunks and checks their contents.
func (w *world) receive() {
	for i := range w.chunks {
		for {
			w.Forget("receive", i, int(w.rx.pos), number(w.rx.lapped))
			gone := w.over() // before the last look
			var h call.Header
			b, ok, err := w.rx.TryPeek(&h)
			if err != nil && w.loose && errors.Is(err, transport.ErrCorrupt) {
				return
			}
			if err != nil {
				w.Fail("chunk %d: %v", i, err)
			}
			if ok {
				w.take(i, h, b)
				break
			}
			if gone {
				return
			}
		}
	}
}

// take checks chunk i and releases it.
func (w *world) take(i int, h call.Header, b []byte) {
	address, n, private := w.rx.Private()
	if w.loose {
		if !private && len(b) > 0 && !inside(b, w.ctl, w.data) && !within(b, w.heap) {
			w.Fail("chunk %d: a window elsewhere", i)
		}
		w.rx.Release()
		return
	}
	if w.early {
		w.rx.Release()
	}
	kind := w.kindOf(i)
	switch {
	case h != headerOf(i):
		w.Fail("chunk %d: header %+v", i, h)
	case private != (kind == own) || private && (n != w.sizeOf(i) || address != uint64(i)<<32):
		w.Fail("chunk %d: private %v, %d bytes at %#x", i, private, n, address)
	case !private && len(b) != w.sizeOf(i):
		w.Fail("chunk %d: %d bytes", i, len(b))
	}
	if !private {
		w.compare(b, i)
	}
	switch {
	case w.early:
	case i%2 == 0:
		w.rx.Release()
	default:
		w.rx.Drop()
	}
}

// compare reads the bytes that write has written.
func (w *world) compare(b []byte, i int) {
	for k, at := range []int{0, len(b) - 1} {
		w.Step("read payload")
		w.Saw(uint64(b[at]))
		if b[at] != byteOf(i, k) {
			w.Fail("chunk %d: byte %d is %#x, want %#x", i, at, b[at], byteOf(i, k))
		}
	}
}

// dies ends a thread as a process ends.
func (w *world) dies(t *Thread) {
	w.Event("death", func() {
		w.Kill(t)
		w.gone = true
	})
}

// scribbles writes a word that no peer writes at any moment, after which there is a fault.
func scribbles(at func(w *world) (b []byte, off int), v uint32) func(*world) {
	return func(w *world) {
		w.Event("scribble", func() {
			b, off := at(w)
			store32(b, off, v, "nonsense")
			w.Step("fault")
			w.gone = true
		})
	}
}

// wraps is a first position from which positions wrap within a few chunks.
const wraps = ^uint32(0) - 3

func scenes() []scene {
	all := []scene{
		{name: "all kinds", slots: 2, chunks: 7},
		{name: "more slots", slots: 4, chunks: 6},
		{name: "positions wrap", slots: 2, chunks: 7, from: wraps},
		{name: "more lines than slots", slots: 2, lines: 4, chunks: 7},
		{name: "more lines, and positions wrap", slots: 2, lines: 4, chunks: 6, from: wraps},
		{name: "the sender dies", slots: 2, chunks: 6, events: func(w *world) { w.dies(w.sending) }},
		{name: "the receiver dies", slots: 2, chunks: 6, events: func(w *world) { w.dies(w.receiving) }},
	}
	places := map[string]func(w *world) ([]byte, int){
		"released":        func(w *world) ([]byte, int) { return w.ctl, 0 },
		"publication":     func(w *world) ([]byte, int) { return w.ctl, headBytes },
		"next":            func(w *world) ([]byte, int) { return w.ctl, headBytes + lineBytes },
		"length":          func(w *world) ([]byte, int) { return w.ctl, headBytes + offLength },
		"length of other": func(w *world) ([]byte, int) { return w.ctl, headBytes + lineBytes + offLength },
		"place":           func(w *world) ([]byte, int) { return w.ctl, headBytes + offInline },
	}
	for i, name := range slices.Sorted(maps.Keys(places)) {
		at := places[name]
		for j, v := range []uint32{0, 1, 2, 3, 65, elsewhere | 4, private | 40, 1 << 29, ^uint32(0)} {
			if (i+j)%3 > 0 && !testutil.Thorough() {
				continue
			}
			all = append(all, scene{name: fmt.Sprintf("%s is %#x", name, v), slots: 2, chunks: 4, loose: true,
				events: scribbles(at, v)})
		}
	}
	return all
}

const maxStates = 5_000_000

// TestExplore checks that in every interleaving of the loads and stores of both ends every chunk arrives once, in order
// and complete, and that both ends can end; that with the death of one end at every step all chunks that arrive are
// complete; and that with a word that no peer writes at every step windows stay inside.
func TestExplore(t *testing.T) {
	all := 0
	for _, s := range scenes() {
		n, err := Explore(s.program(), maxStates)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		all += n
	}
	n, err := Explore(sharing(true), maxStates)
	if err != nil {
		t.Errorf("sharing: %v", err)
	}
	t.Logf("%d states, %d of a payload that two FIFOs share", all+n, n)
}
