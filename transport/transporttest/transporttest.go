// Package transporttest is not for users: it is the conformance suite that every transport
// passes: what package collective relies on, as tests over the interfaces of package transport
// alone.
//
// It is imported by the tests of the transports and by nothing else.
package transporttest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/transport"
)

// Open returns the endpoints of all ranks of a layout, by rank. The suite
// closes them.
type Open func(t *testing.T, l transport.Layout) []transport.Endpoint

// Limit is how long anything in the suite may take before it counts as hung.
// It says nothing about speed.
const Limit = 3 * time.Minute

// nap bounds one sleep on a bell where the test relies on being rung: a lost
// wake-up then fails the test by Limit.
const nap = 2 * Limit

// Run runs the suite, without the tests of what a transport cannot promise, by name.
func Run(t *testing.T, open Open, except ...string) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"order", testOrder},
		{"sizes", testSizes},
		{"full and empty", testFullEmpty},
		{"windows are stable", testStable},
		{"links are separate", testSeparate},
		{"shared payloads", testShare},
		{"memory of ones own", testLendOwn},
		{"memory where it belongs", testPlaced},
		{"memory of the others", testView},
		{"no such link", testNoLink},
		{"too large", testTooLarge},
		{"sleepers", testSleepers},
		{"bell", testBell},
		{"status", testStatus},
		{"first abort wins", testAbort},
		{"forms of faults", testFaultForms},
		{"abort ends waiting", testAbortEndsWaiting},
		{"close", testClose},
		{"close ends waiting", testCloseEndsWaiting},
		{"closed endpoint", testClosedEndpoint},
		{"relay", testRelay},
		{"order of other memory", testOrdersHeap},
		{"no allocation", testAllocations},
	} {
		if !slices.Contains(except, c.name) {
			t.Run(c.name, func(t *testing.T) { c.test(t, open) })
		}
	}
}

// Pair is a layout of two ranks with one link each way.
func Pair(slots, slotBytes int) transport.Layout {
	return transport.Layout{Size: 2, Slots: slots, SlotBytes: slotBytes,
		Links: []transport.Link{{Src: 0, Dst: 1}, {Src: 1, Dst: 0}}}
}

// opened opens a layout and closes it when the test ends.
func opened(t *testing.T, open Open, l transport.Layout) []transport.Endpoint {
	t.Helper()
	all := open(t, l)
	t.Cleanup(func() {
		for r, e := range all {
			if err := e.Close(); err != nil {
				t.Errorf("rank %d: Close: %v", r, err)
			}
		}
	})
	return all
}

func mustSender(t *testing.T, e transport.Endpoint, lane, dst int) transport.Sender {
	t.Helper()
	s, err := e.Sender(lane, dst)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustReceiver(t *testing.T, e transport.Endpoint, lane, src int) transport.Receiver {
	t.Helper()
	r, err := e.Receiver(lane, src)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pair opens Pair and returns the link from rank 0 to rank 1.
func pair(t *testing.T, open Open, slots, slotBytes int) ([]transport.Endpoint, transport.Sender, transport.Receiver) {
	t.Helper()
	all := opened(t, open, Pair(slots, slotBytes))
	return all, mustSender(t, all[0], 0, 1), mustReceiver(t, all[1], 0, 0)
}

// errAborted ends a wait because the set has a fault.
var errAborted = errors.New("aborted")

// Wait polls until it returns true or an error, sleeping on e's bell between,
// as the executor of a collective does. It ends with the set's fault.
func Wait(e transport.Endpoint, poll func() (bool, error)) error { return wait(e, 20, poll) }

// wait polls a number of times before each sleep.
func wait(e transport.Endpoint, polls int, poll func() (bool, error)) error {
	b := e.Bell()
	for {
		for range polls {
			if ok, err := poll(); ok || err != nil {
				return err
			}
			b.Yield()
		}
		b.Prepare()
		ok, err := poll()
		f, aborted := e.Aborted()
		if ok || err != nil || aborted {
			b.Cancel()
			if !ok && err == nil {
				err = fmt.Errorf("%w: rank %d: %s", errAborted, f.Rank, f.Text)
			}
			return err
		}
		b.Sleep(nap)
	}
}

// Send waits for a slot and sends n bytes that fill writes.
func Send(e transport.Endpoint, s transport.Sender, h *transport.Header, n int, fill func([]byte)) error {
	return Wait(e, trySend(s, h, n, fill))
}

func trySend(s transport.Sender, h *transport.Header, n int, fill func([]byte)) func() (bool, error) {
	return func() (bool, error) {
		w, ok, err := s.TryReserve(n)
		if ok {
			fill(w)
			s.Commit(h)
		}
		return ok, err
	}
}

// Receive waits for a chunk and shows it to use, then releases it.
func Receive(e transport.Endpoint, r transport.Receiver, use func(transport.Header, []byte) error) error {
	return Wait(e, tryReceive(r, use))
}

func tryReceive(r transport.Receiver, use func(transport.Header, []byte) error) func() (bool, error) {
	return func() (bool, error) {
		var h transport.Header
		w, ok, err := r.TryPeek(&h)
		if ok {
			err = use(h, w)
			r.Release()
		}
		return ok, err
	}
}

// together runs the functions at the same time and fails the test with their
// errors, or when one does not return within Limit.
func together(t *testing.T, fs ...func() error) {
	t.Helper()
	errs := make([]error, len(fs))
	var wg sync.WaitGroup
	for i, f := range fs {
		wg.Go(func() { errs[i] = f() })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(Limit):
		stacks := make([]byte, 1<<20)
		t.Fatalf("not finished after %v\n%s", Limit, stacks[:runtime.Stack(stacks, true)])
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// soon reports whether ok becomes true within Limit: what one rank did may take a
// moment to get to another. Where it must not become true, tests look once.
func soon(ok func() bool) bool {
	for start := time.Now(); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Since(start) > Limit {
			return false
		}
	}
	return true
}

// reserve is TryReserve of a slot that must be free soon.
func reserve(t *testing.T, s transport.Sender, n int) (w []byte) {
	t.Helper()
	var ok bool
	var err error
	soon(func() bool { w, ok, err = s.TryReserve(n); return ok || err != nil })
	if !ok || err != nil || len(w) != n {
		t.Fatalf("TryReserve(%d) = %d bytes, %v, %v", n, len(w), ok, err)
	}
	return w
}

// send sends chunk i, of n bytes, through a slot that must be free soon.
func send(t *testing.T, s transport.Sender, i, n int) {
	t.Helper()
	fillWith(i)(reserve(t, s, n))
	h := header(i)
	s.Commit(&h)
}

// peek is TryPeek of chunk i, of n bytes, which must be there soon.
func peek(t *testing.T, r transport.Receiver, i, n int) (b []byte) {
	t.Helper()
	var h transport.Header
	var ok bool
	var err error
	soon(func() bool { b, ok, err = r.TryPeek(&h); return ok || err != nil })
	if !ok || err != nil {
		t.Fatalf("chunk %d: TryPeek = %v, %v", i, ok, err)
	}
	if err := checkChunk(h, b, i, n); err != nil {
		t.Fatal(err)
	}
	return b
}

// receive is peek and Release.
func receive(t *testing.T, r transport.Receiver, i, n int) {
	t.Helper()
	peek(t, r, i, n)
	r.Release()
}

// nothing checks that there is no chunk.
func nothing(t *testing.T, r transport.Receiver) {
	t.Helper()
	var h transport.Header
	if _, ok, err := r.TryPeek(&h); ok || err != nil {
		t.Fatalf("TryPeek where nothing was sent: %v, %v", ok, err)
	}
}

// header makes a header whose every field depends on i.
func header(i int) transport.Header {
	return transport.Header{Seq: uint64(i)*0x1_0000_0001 + 1, Count: uint64(i) << 33, Kind: uint8(i), Op: uint8(i >> 3),
		DType: uint8(i >> 5), Root: int32(i%7 - 1)}
}

// fillWith fills a window with bytes that depend on i; checkFilled reports
// the first byte that is not one of them.
func fillWith(i int) func([]byte) {
	return func(b []byte) {
		for k := range b {
			b[k] = byte(i*131 + k*7 + 1)
		}
	}
}

func checkFilled(b []byte, i int) error {
	for k := range b {
		if want := byte(i*131 + k*7 + 1); b[k] != want {
			return fmt.Errorf("chunk %d: byte %d of %d is %d, want %d", i, k, len(b), b[k], want)
		}
	}
	return nil
}

// checkChunk checks that a chunk is the one that send has sent.
func checkChunk(h transport.Header, b []byte, i, n int) error {
	if want := header(i); h != want || len(b) != n {
		return fmt.Errorf("chunk %d: %d bytes with header %+v, want %d with %+v", i, len(b), h, n, want)
	}
	return checkFilled(b, i)
}
