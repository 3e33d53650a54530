package ring

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// memory returns the areas of one FIFO on the heap, with canaries behind them.
func memory(slots, slotBytes int) (ctl, data []byte, intact func() bool) {
	all := make([]byte, ControlBytes(slots)+slots*slotBytes+128) // so large that Go aligns it
	n, m := ControlBytes(slots), slots*slotBytes
	for i := range all[n+m:] {
		all[n+m+i] = 0xA5
	}
	return all[:n:n], all[n : n+m : n+m], func() bool {
		for _, c := range all[n+m:] {
			if c != 0xA5 {
				return false
			}
		}
		return true
	}
}

func newPair(slots, slotBytes int) (Tx, Rx, []byte, []byte) {
	ctl, data, _ := memory(slots, slotBytes)
	return NewTx(ctl, data, slots, slotBytes), NewRx(ctl, data, nil, slots, slotBytes), ctl, data
}

// chunk is the oracle's copy of a chunk: a queue of these is a trivial FIFO.
type chunk struct {
	h    call.Header
	body string
}

// TestAgainstQueue drives both ends with random operations next to a plain queue, from a random position so that
// counters wrap.
func TestAgainstQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := 1 << rapid.IntRange(1, 5).Draw(t, "slots")
		slotBytes := 64 * rapid.IntRange(1, 4).Draw(t, "lines")
		ctl, data, intact := memory(slots, slotBytes)
		tx, rx := NewTx(ctl, data, slots, slotBytes), NewRx(ctl, data, nil, slots, slotBytes)
		if rapid.Bool().Draw(t, "wraps") {
			jump(&tx, &rx, 0-uint32(lines(slots)*rapid.IntRange(1, 3).Draw(t, "laps")))
		}
		var held, queue []chunk // that the receiver has read, and not given back; and not read
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				body := rapid.SliceOfN(rapid.Byte(), 0, slotBytes).Draw(t, "body")
				w, ok, err := tx.TryReserve(len(body))
				taken := slices.Concat(held, queue)
				room := len(taken) < lines(slots)
				for i, c := range taken { // a payload that is not small needs its slot; so may one of 0 bytes, if it is lent
					small := len(body) > 0 && len(body) <= transport.MaxInline || len(c.body) <= transport.MaxInline
					room = room && (small || (len(taken)-i)%slots != 0)
				}
				if err != nil || ok != room {
					t.Fatalf("TryReserve of %d bytes with %d slots taken: %v, %v", len(body), len(taken), ok, err)
				}
				if !ok {
					return
				}
				copy(w, body)
				h := call.Header{Seq: rapid.Uint64().Draw(t, "seq"),
					What: call.What(0, uint8(len(body)), 0, 0, rapid.Int32().Draw(t, "root"))}
				tx.Commit(&h)
				queue = append(queue, chunk{h, string(body)})
			},
			"receive": func(t *rapid.T) {
				var h call.Header
				w, ok, err := rx.TryPeek(&h)
				if err != nil || ok != (len(queue) > 0) {
					t.Fatalf("TryPeek with %d chunks: %v, %v", len(queue), ok, err)
				}
				if !ok {
					return
				}
				if got := (chunk{h, string(w)}); got != queue[0] {
					t.Fatalf("got %+v, want %+v", got, queue[0])
				}
				if held, queue = append(held, queue[0]), queue[1:]; rx.MayHold() && rapid.Bool().Draw(t, "holds") {
					rx.Hold()
					return
				}
				rx.Release()
				held = nil
			},
			"": func(t *rapid.T) {
				if !intact() {
					t.Fatal("wrote behind the memory")
				}
			},
		})
	})
}

// A sender has all slots for payloads that need one, whatever the receiver holds: ranks that send each other as many
// before they receive wait for each other otherwise.
func TestHeldChunksTakeNoSlot(t *testing.T) {
	const slots = manySlots
	for n := range transport.MaxInline + 1 {
		tx, rx, _, _ := newPair(slots, 64)
		send := func(n int) {
			if _, ok, err := tx.TryReserve(n); err != nil || !ok {
				t.Fatalf("%d bytes, behind a held payload: %v, %v", n, ok, err)
			}
			tx.Commit(new(call.Header))
		}
		send(n)
		if _, ok, err := rx.TryPeek(new(call.Header)); err != nil || !ok || !rx.MayHold() {
			t.Fatalf("%d bytes: %v, %v; may be held: %v", n, ok, err, rx.MayHold())
		}
		rx.Hold()
		for range slots {
			send(64)
		}
	}
}

// jump puts both ends, and the memory, into the state after pos chunks, a
// multiple of the lines.
func jump(tx *Tx, rx *Rx, pos uint32) {
	tx.pos, tx.head, tx.sent, rx.pos, rx.lapped = pos, pos, uint64(pos), pos, true
	storeWord(tx.ctl, 0, pos)
	for i := range tx.lines {
		storeWord(tx.line(i), 0, pos+i+1-tx.lines)
	}
}

// TestConcurrent runs both ends at once; under the race detector it shows that the publication word and the release
// counter order all accesses.
func TestConcurrent(t *testing.T) {
	for _, slots := range []int{2, 8} {
		tx, rx, _, _ := newPair(slots, 256)
		const chunks = 20000
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; i < chunks; {
				w, ok, err := tx.TryReserve(i % 257)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					runtime.Gosched()
				} else {
					for k := range w {
						w[k] = byte(i + k)
					}
					tx.Commit(&call.Header{Seq: uint64(i)})
					i++
				}
			}
		})
		for i := 0; i < chunks; {
			var h call.Header
			w, ok, err := rx.TryPeek(&h)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				runtime.Gosched()
				continue
			}
			if h.Seq != uint64(i) || len(w) != i%257 {
				t.Fatalf("chunk %d: header %+v, %d bytes", i, h, len(w))
			}
			for k := range w {
				if w[k] != byte(i+k) {
					t.Fatalf("chunk %d: byte %d is %d", i, k, w[k])
				}
			}
			rx.Release()
			i++
		}
		wg.Wait()
	}
}

// TestHostile writes values that no peer writes into the shared words, one at a time.
func TestHostile(t *testing.T) {
	send := func(tx *Tx, n int) {
		if _, ok, err := tx.TryReserve(n); !ok || err != nil {
			t.Fatal(ok, err)
		}
		tx.Commit(&call.Header{})
	}
	for _, length := range []uint32{65, 128, 1 << 31, ^uint32(0)} {
		tx, rx, ctl, _ := newPair(2, 64)
		send(&tx, 64)
		storeWord(ctl, headBytes+offLength, length)
		var h call.Header
		if w, ok, err := rx.TryPeek(&h); ok || !errors.Is(err, transport.ErrCorrupt) {
			t.Errorf("length %d: %d bytes, %v, %v, want ErrCorrupt", length, len(w), ok, err)
		}
	}
	for _, w := range []uint32{2, 3, 1 << 31, ^uint32(0)} {
		_, rx, ctl, _ := newPair(2, 64)
		storeWord(ctl, headBytes, w)
		var h call.Header
		if _, ok, err := rx.TryPeek(&h); ok || !errors.Is(err, transport.ErrCorrupt) {
			t.Errorf("publication word %d: %v, %v, want ErrCorrupt", w, ok, err)
		}
	}
	for _, head := range []uint32{3, 1 << 31, ^uint32(0)} {
		tx, _, ctl, _ := newPair(2, 64)
		send(&tx, 1)
		send(&tx, 1)
		storeWord(ctl, 0, head)
		if _, ok, err := tx.TryReserve(1); ok || !errors.Is(err, transport.ErrCorrupt) {
			t.Errorf("released %d of 2: %v, %v, want ErrCorrupt", head, ok, err)
		}
	}
}

// TestMisuse checks that a broken precondition, which is a bug of the caller, panics.
func TestMisuse(t *testing.T) {
	lending, _, _, _ := newPair(2, 64)
	lending.n = 0 // as TryReserve leaves it for memory that is lent
	tx, rx, ctl, data := newPair(2, 64)
	for name, f := range map[string]func(){
		"commit":       func() { tx.Commit(&call.Header{}) },
		"release":      func() { rx.Release() },
		"shared":       func() { lending.PostAt(&call.Header{}, 0, transport.MaxLent+1) },
		"private":      func() { lending.PostPrivate(&call.Header{}, 0, transport.MaxLent/2+1) },
		"slots":        func() { NewTx(ctl, data, 3, 64) },
		"control area": func() { NewTx(ctl[:64], data, 2, 64) },
		"data area":    func() { NewRx(ctl, data[:64], nil, 2, 64) },
		"alignment":    func() { NewRx(append(make([]byte, 0, 512), make([]byte, 512)...)[4:], data, nil, 2, 64) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// FuzzHostileMemory checks that whatever the shared memory holds and whenever it changes, both ends return windows
// inside it, or errors, and never panic.
func FuzzHostileMemory(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 8, 0, 0, 0}, []byte("prpr"))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255}, []byte("ppp"))
	f.Add([]byte{9, 9}, []byte("ssssspppp"))
	f.Add([]byte{}, []byte("sprspr"))
	f.Add([]byte{2, 0, 0, 0}, []byte("sspwsw"))
	f.Add([]byte{0, 255, 255, 255, 255}, []byte("sso\x02hoh"))
	f.Fuzz(func(t *testing.T, dirt, ops []byte) {
		const slots, slotBytes = 4, 128
		ctl, data, intact := memory(slots, slotBytes)
		tx, rx := NewTx(ctl, data, slots, slotBytes), NewRx(ctl, data, nil, slots, slotBytes)
		scribble(ctl, dirt, 0)
		for i, op := range ops {
			var h call.Header
			switch op {
			case 'p', 'r':
				w, ok, err := rx.TryPeek(&h)
				if ok && (err != nil || len(w) > slotBytes || !inside(w, ctl, data)) {
					t.Fatalf("window of %d bytes, error %v", len(w), err)
				}
				if ok && op == 'r' {
					rx.Release()
				}
			case 's':
				w, ok, err := tx.TryReserve(i % (slotBytes + 1))
				if ok && (err != nil || !inside(w, ctl, data)) {
					t.Fatalf("window of %d bytes, error %v", len(w), err)
				}
				if ok {
					clear(w)
					tx.Commit(&h)
				}
			case 'h':
				if old := tx.Oldest(); tx.Next()-old > slots {
					t.Fatalf("oldest %d of %d", old, tx.Next())
				}
			default:
				scribble(ctl, dirt, int(op))
			}
		}
		if !intact() {
			t.Fatal("wrote behind the memory")
		}
	})
}

// scribble writes dirt over the words of the control area, beginning with line n.
func scribble(ctl, dirt []byte, n int) {
	for i, c := range dirt {
		ctl[(n*lineBytes+i)%len(ctl)] = c
	}
}

func inside(w, ctl, data []byte) bool {
	return len(w) == 0 || within(w, ctl) || within(w, data)
}

// within reports whether w lies in b.
func within(w, b []byte) bool {
	for i := range b {
		if &b[i] == &w[0] {
			return i+len(w) <= len(b)
		}
	}
	return false
}

func ExampleTx() {
	ctl, data, _ := memory(2, 64)
	tx, rx := NewTx(ctl, data, 2, 64), NewRx(ctl, data, nil, 2, 64)
	w, _, _ := tx.TryReserve(5)
	copy(w, "hello")
	tx.Commit(&call.Header{Seq: 1})
	var h call.Header
	w, _, _ = rx.TryPeek(&h)
	fmt.Printf("call %d: %s\n", h.Seq, w)
	rx.Release()
	// Output: call 1: hello
}
