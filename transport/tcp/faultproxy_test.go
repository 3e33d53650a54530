package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// disturbed returns the endpoints of two ranks, all of whose connections go through a proxy that applies the fault up
// to bytes from rank 0 and the fault down to bytes from rank 1.
func disturbed(t *testing.T, l transport.Layout, up,
	down testutil.Fault) (*testutil.Proxy, []transport.Endpoint) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p := testutil.NewProxy(t, ln.Addr().String())
	p.Next(up, down)
	near, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	sockets := []map[int]socket{{1: socketOf(t, near.(*net.TCPConn))}, {0: socketOf(t, far.(*net.TCPConn))}}
	var all []transport.Endpoint
	for r := range 2 {
		cfg := configOf(r, l)
		cfg.HostOf = func(r int) string { return fmt.Sprintf("host%d", r) }
		e, err := endpointOf(cfg, sockets[r])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	stop, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	for r, e := range all {
		watch.Go(func() { reportEnd(stop, e, 1-r) })
	}
	t.Cleanup(func() {
		cancel()
		watch.Wait()
		for _, e := range all {
			_ = e.Close()
		}
	})
	return p, all
}

// reportEnd makes it the fault of the set that the links with a peer have ended, as a communicator does if no other
// source knows the cause.
func reportEnd(stop context.Context, e transport.Endpoint, peer int) {
	for seen := 0; stop.Err() == nil; time.Sleep(10 * time.Millisecond) {
		err := e.Status(peer).Ended
		if seen++; err == nil {
			seen = 0
		}
		if seen == 10 || errors.Is(err, transport.ErrCorrupt) {
			e.Abort(transport.Faultf(transport.FaultLink, peer, "no link with rank %d is left: %v", peer, err))
			return
		}
	}
}

// exchange makes both ranks send each other chunks of many sizes until done chunks have arrived or the set has a fault.
// Every payload that arrives is checked.
func exchange(t *testing.T, all []transport.Endpoint, chunks int) (faults [2]transport.Fault) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for me, e := range all {
		wg.Go(func() { errs[me] = exchangeAs(e, me, chunks) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(3 * testutil.Limit):
		t.Fatal("neither the data nor a fault")
	}
	for me, e := range all {
		f, failed := e.Aborted()
		var w *wrong
		switch {
		case errors.As(errs[me], &w):
			t.Errorf("rank %d got wrong data: %v", me, w)
		case errs[me] != nil && !failed && !errors.Is(errs[me], transport.ErrCorrupt):
			t.Errorf("rank %d: %v without a fault", me, errs[me])
		}
		faults[me] = f
	}
	return faults
}

type wrong struct{ error }

func exchangeAs(e transport.Endpoint, me, chunks int) error {
	s, err := e.Sender(0, 1-me)
	if err != nil {
		return err
	}
	r, err := e.Receiver(0, 1-me)
	if err != nil {
		return err
	}
	size := func(i int) int { return i * 7919 % (e.MaxPayload() + 1) }
	for sent, got := 0, 0; sent < chunks || got < chunks; {
		err := testutil.Wait(e, 20, func() (bool, error) {
			moved := false
			if sent < chunks {
				w, ok, err := s.TryReserve(size(sent))
				if err != nil {
					return false, err
				}
				if ok {
					for k := range w {
						w[k] = byte(sent + k)
					}
					s.Commit(&call.Header{Seq: uint64(sent)})
					sent++
					moved = true
				}
			}
			var h call.Header
			b, ok, err := r.TryPeek(&h)
			if err != nil || !ok {
				return moved, err
			}
			if h != (call.Header{Seq: uint64(got)}) || len(b) != size(got) {
				return false, &wrong{fmt.Errorf("chunk %d: %d bytes, header %+v", got, len(b), h)}
			}
			for k := range b {
				if b[k] != byte(got+k) {
					return false, &wrong{fmt.Errorf("chunk %d: byte %d of %d", got, k, len(b))}
				}
			}
			r.Release()
			got++
			return true, nil
		})
		if err != nil && sent == chunks && got == chunks {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDisturbed checks that no payload is ever wrong, whatever happens to a connection, and that either all payloads
// arrive or every rank has a fault in time.
func TestDisturbed(t *testing.T) {
	const far = 200 << 10 // bytes, in the middle of the exchange
	for name, c := range map[string]struct {
		up, down testutil.Fault
		chunks   int
		fails    string // in the text of the fault; "": all is well
	}{
		"nothing": {chunks: 300},
		"delay": {up: testutil.Fault{Delay: 3 * time.Millisecond},
			down: testutil.Fault{Delay: 5 * time.Millisecond}, chunks: 60},
		"one byte at once": {up: testutil.Fault{Piece: 1}, chunks: 20},
		"odd pieces":       {up: testutil.Fault{Piece: 37}, down: testutil.Fault{Piece: 41}, chunks: 60},
		"short stall": {up: testutil.Fault{After: far, Kind: testutil.Stall, Hold: 300 * time.Millisecond},
			chunks: 300},
		"reset": {up: testutil.Fault{After: far, Kind: testutil.Reset}, chunks: 300,
			fails: ": connection "},
		"half closed": {up: testutil.Fault{After: far, Kind: testutil.HalfClose}, chunks: 300,
			fails: ": connection "},
		"closed": {down: testutil.Fault{After: far, Kind: testutil.Close}, chunks: 300,
			fails: ": connection "},
		"twice, one byte": {up: testutil.Fault{After: far, Kind: testutil.Duplicate, Bytes: 1}, chunks: 300,
			fails: "violated the protocol"},
		"twice, some bytes": {up: testutil.Fault{After: far, Kind: testutil.Duplicate, Bytes: 44}, chunks: 300,
			fails: "violated the protocol"},
		"twice, many bytes": {down: testutil.Fault{After: far, Kind: testutil.Duplicate, Bytes: 4000}, chunks: 300,
			fails: "violated the protocol"},
		"cut at once": {up: testutil.Fault{After: 1, Kind: testutil.Close}, chunks: 10,
			fails: ": connection "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, all := disturbed(t, testutil.Pair(4, 4096), c.up, c.down)
			faults := exchange(t, all, c.chunks)
			for me, f := range faults {
				if c.fails == "" {
					if f != (transport.Fault{}) {
						t.Errorf("rank %d has fault %+v", me, f)
					}
					continue
				}
				if f.Rank < 0 || !strings.Contains(f.Text, c.fails) {
					t.Errorf("rank %d has fault %+v, want %q", me, f, c.fails)
				}
				if want := fmt.Sprintf("rank %d on host%d", f.Rank, f.Rank); !strings.Contains(f.Text, want) {
					t.Errorf("fault %q does not name %q", f.Text, want)
				}
			}
		})
	}
}

// TestLostInNoCall checks that a rank that is in no call also learns of a lost peer, and of a fault that another rank
// reports.
func TestLostInNoCall(t *testing.T) {
	p, all := disturbed(t, testutil.Pair(4, 4096), testutil.Fault{}, testutil.Fault{})
	if faults := exchange(t, all, 10); faults != [2]transport.Fault{} {
		t.Fatal(faults)
	}
	p.Reset()
	for me, e := range all {
		if err := untilAborted(e); err != nil {
			t.Fatalf("rank %d: %v", me, err)
		}
		if f, _ := e.Aborted(); f.Rank != 1-me || !strings.Contains(f.Text, fmt.Sprintf("no link with rank %d", 1-me)) {
			t.Errorf("rank %d has fault %+v", me, f)
		}
	}
}

func untilAborted(e transport.Endpoint) error {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Limit)
	defer cancel()
	for {
		if _, ok := e.Aborted(); ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Everything that was sent before Close arrives, however much was still waiting for the network: the notice that the
// rank has closed does not overtake it.
func TestCloseBehindTheLastChunk(t *testing.T) {
	const slots, bytes = 8, 4 << 20 // more than the kernels take
	l := transport.Layout{Size: 2, Slots: slots, SlotBytes: bytes}
	// Bytes from the receiver stay in the proxy: to a closed socket they would bring a reset, at which the proxy's
	// kernel drops the bytes that it holds. Between two ranks the receiver's own kernel has all of them by then.
	_, all := disturbed(t, l,
		testutil.Fault{Kind: testutil.Stall, After: 1000, Hold: 300 * time.Millisecond},
		testutil.Fault{Kind: testutil.Stall, After: 0})
	s, err := all[0].Sender(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := all[1].Receiver(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range slots {
		w, ok, err := s.TryReserve(bytes)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		w[0], w[bytes-1] = byte(i), byte(i+1)
		s.Commit(&call.Header{Seq: uint64(i + 1)})
	}
	closed := make(chan error, 1)
	go func() { closed <- all[0].Close() }()
	for i := range slots {
		err := testutil.Receive(all[1], r, func(h call.Header, w []byte) error {
			if h.Seq != uint64(i+1) || len(w) != bytes || w[0] != byte(i) || w[bytes-1] != byte(i+1) {
				return fmt.Errorf("chunk %d is call %d with %d bytes", i, h.Seq, len(w))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
