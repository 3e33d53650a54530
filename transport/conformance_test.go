package transport_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// conform runs the tests of the transport contract, except those of the given names, which a transport cannot fulfill.
func conform(t *testing.T, open opener, except ...string) {
	for _, c := range []struct {
		name string
		test func(*testing.T, opener)
	}{
		{"order", testOrder},
		{"sizes", testSizes},
		{"full and empty", testFullEmpty},
		{"windows are stable", testStable},
		{"links are separate", testSeparate},
		{"shared payloads", testShare},
		{"memory of ones own", testLendOwn},
		{"held slots", testHold},
		{"held slots of lent payloads", testHoldLent},
		{"memory where it belongs", testPlaced},
		{"memory of the others", testView},
		{"no such link", testNoLink},
		{"too large", testTooLarge},
		{"sleepers", testSleepers},
		{"bell", testBell},
		{"several bells", testSleepAny},
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

// opened opens a layout and closes it when the test ends.
func opened(t *testing.T, open opener, l transport.Layout) []transport.Endpoint {
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
func pair(t *testing.T, open opener, slots, slotBytes int) ([]transport.Endpoint, transport.Sender,
	transport.Receiver) {
	t.Helper()
	all := opened(t, open, testutil.Pair(slots, slotBytes))
	return all, mustSender(t, all[0], 0, 1), mustReceiver(t, all[1], 0, 0)
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
	case <-time.After(testutil.Limit):
		stacks := make([]byte, 1<<20)
		t.Fatalf("not finished after %v\n%s", testutil.Limit, stacks[:runtime.Stack(stacks, true)])
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// soon reports whether ok becomes true within Limit: an action of one rank may take a moment to reach another. Where it
// must not become true, tests check once.
func soon(ok func() bool) bool {
	for start := time.Now(); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Since(start) > testutil.Limit {
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
	var h call.Header
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
	var h call.Header
	if _, ok, err := r.TryPeek(&h); ok || err != nil {
		t.Fatalf("TryPeek where nothing was sent: %v, %v", ok, err)
	}
}

// header makes a header whose every field depends on i.
func header(i int) call.Header {
	return call.Header{Seq: uint64(i)*0x1_0000_0001 + 1, Count: uint64(i) << 33,
		What: call.What(uint8(i), uint8(i>>3), uint8(i>>5), 0, int32(i%7-1))}
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
func checkChunk(h call.Header, b []byte, i, n int) error {
	if want := header(i); h != want || len(b) != n {
		return fmt.Errorf("chunk %d: %d bytes with header %+v, want %d with %+v", i, len(b), h, n, want)
	}
	return checkFilled(b, i)
}
