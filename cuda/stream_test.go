//go:build cgo && linux

package cuda

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestEventsOrderStreams: a stream that waits for an event sees what another
// did before it, on the same device and on another.
func TestEventsOrderStreams(t *testing.T) {
	d := gpus(t, 1)[0]
	other := d
	if all, _ := Devices(); len(all) > 1 {
		other = all[1]
	}
	a, b, c := stream(t, d), stream(t, d), stream(t, other)
	e, f := event(t, d, false), event(t, d, false)
	m, n := alloc[uint32](t, d, 1<<12), alloc[uint32](t, d, 1<<12)
	p := pinned[uint32](t, d, 1<<12)
	for i := range 30 {
		must(t, a.Memset(m.Addr(), byte(i+1), m.Bytes()))
		must(t, a.Record(e))
		must(t, b.Wait(e))
		must(t, b.Memcpy(n.Addr(), m.Addr(), m.Bytes()))
		must(t, b.Record(f))
		must(t, c.Wait(f))
		must(t, c.Memcpy(p.Addr(), n.Addr(), n.Bytes()))
		must(t, a.Wait(f)) // the next round writes m
		must(t, c.Synchronize(t.Context()))
		want := uint32(i+1) * 0x01010101
		if host := p.Host(); host[0] != want || host[len(host)-1] != want {
			t.Fatalf("round %d: %#x and %#x, want %#x", i, host[0], host[len(host)-1], want)
		}
	}
}

func event(t testing.TB, d *Device, timing bool) *Event {
	t.Helper()
	e, err := d.NewEvent(timing)
	must(t, err)
	closed(t, func() error { return e.Close() })
	return e
}

// TestEvents: an event is done when the work before it is, and reports the time.
func TestEvents(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	from, to := event(t, d, true), event(t, d, true)
	if done, err := from.Query(); !done || err != nil {
		t.Errorf("an event never recorded: %t, %v", done, err)
	}
	must(t, s.Wait(from)) // nothing to wait for
	w := flag(t, d)
	must(t, s.Record(from))
	must(t, await(s, w.addr, 1))
	must(t, s.Record(to))
	must(t, from.Synchronize(t.Context()))
	if done, err := to.Query(); done || err != nil {
		t.Errorf("the event behind a stream that waits: %t, %v", done, err)
	}
	if done, err := s.Query(); done || err != nil {
		t.Errorf("a stream that waits: %t, %v", done, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantError(t, to.Synchronize(ctx), context.DeadlineExceeded, d.UUID())
	wantError(t, s.Synchronize(ctx), context.DeadlineExceeded, d.UUID())
	w.Store(1)
	must(t, to.Synchronize(t.Context()))
	took, err := to.Since(from)
	if err != nil || took < 10*time.Millisecond || took > time.Minute {
		t.Errorf("from one event to the other %v, %v; the stream was held for 20 ms", took, err)
	}
	untimed := event(t, d, false)
	must(t, s.Record(untimed))
	must(t, s.Synchronize(t.Context()))
	_, err = to.Since(untimed)
	wantError(t, err, nil, "cuEventElapsedTime", d.UUID())
}

// TestValues: streams wait for words and write them, in device memory and in
// the host's; counters wrap.
func TestValues(t *testing.T) {
	d := gpus(t, 1)[0]
	must(t, d.TryStreamMemOps())
	a, b := stream(t, d), stream(t, d)
	m := alloc[uint32](t, d, 8)
	in, out := flag(t, d), flag(t, d)
	for i, start := range []uint32{0, 5, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
		in.Store(start)
		out.Store(start)
		must(t, a.Memset(m.Addr(), 0, m.Bytes()))
		must(t, write(a, m.Addr()+4, start))
		must(t, a.Synchronize(t.Context()))
		must(t, await(a, in.addr, start+2))    // the host's store
		must(t, write(a, m.Addr()+4, start+2)) // for b
		must(t, await(b, m.Addr()+4, start+1)) // passed by more
		must(t, write(b, out.addr, start+3))   // for the host
		must(t, await(b, out.addr, start+3))   // equal
		must(t, await(b, out.addr, start-10))  // long ago
		in.Store(start + 1)                    // not yet
		time.Sleep(5 * time.Millisecond)
		if done, err := b.Query(); done || err != nil || out.Load() != start {
			t.Fatalf("start %#x: the streams did not wait: %t, %v, %#x", start, done, err, out.Load())
		}
		in.Store(start + 2)
		must(t, b.Synchronize(t.Context()))
		must(t, a.Synchronize(t.Context()))
		if out.Load() != start+3 {
			t.Errorf("case %d: the stream wrote %#x, want %#x", i, out.Load(), start+3)
		}
	}
	wantError(t, write(a, in.addr+2, 1), nil, "cuStreamBatchMemOp", d.UUID())
	wantError(t, await(a, 64, 1), nil, "cuStreamBatchMemOp", "CUDA_ERROR_INVALID_VALUE")
}

// TestMemOps: operations of one call are done in their order.
func TestMemOps(t *testing.T) {
	d := gpus(t, 1)[0]
	s, other := stream(t, d), stream(t, d)
	p := pinned[uint32](t, d, MaxMemOps+1)
	w := wordsOf(p)
	gate := p.Addr() + MaxMemOps*4
	ops := make([]MemOp, 0, MaxMemOps)
	for i := range MaxMemOps / 2 {
		a := p.Addr() + Addr(i)*4
		ops = append(ops, MemOp{Addr: a, Value: uint32(i + 1)}, MemOp{Addr: a, Value: uint32(i + 1), Wait: true})
	}
	ops[0] = MemOp{Addr: gate, Value: 1, Wait: true}
	must(t, s.MemOps(nil))
	must(t, s.MemOps(ops))
	time.Sleep(2 * time.Millisecond)
	if w[1].Load() != 0 {
		t.Error("the second write came before the first wait was over")
	}
	// ops[1] waits for a word that ops[0] no longer writes.
	must(t, other.MemOps([]MemOp{{Addr: p.Addr(), Value: 1}, {Addr: gate, Value: 9}}))
	must(t, s.Synchronize(t.Context()))
	must(t, other.Synchronize(t.Context()))
	for i, v := range p.Host()[:MaxMemOps/2] {
		if v != uint32(i+1) {
			t.Errorf("word %d is %d", i, v)
		}
	}
	wantError(t, s.MemOps(make([]MemOp, MaxMemOps+1)), ErrOutOfRange, "65")
}

// TestWrongDevice: a value of another device is refused before the driver is called.
func TestWrongDevice(t *testing.T) {
	needFake(t)
	list := gpus(t, 2)
	s := stream(t, list[1])
	e := event(t, list[0], false)
	wantError(t, s.Record(e), ErrWrongDevice, list[0].UUID(), list[1].UUID())
	must(t, s.Wait(e))
	m := alloc[byte](t, list[0], 1)
	_, _, _, _, err := list[1].ExportMemory(m.Addr())
	wantError(t, err, ErrWrongDevice, list[1].UUID(), "device 0")
}

// TestClosed: closed values return an error for that, and closing again does nothing.
func TestClosed(t *testing.T) {
	d := gpus(t, 1)[0]
	open := stream(t, d)
	live := event(t, d, false)
	list, err := d.NewWaitingStreams(1)
	must(t, err)
	s := list[0]
	e, err := d.NewEvent(false)
	must(t, err)
	must(t, s.Close())
	must(t, s.Close())
	must(t, e.Close())
	must(t, e.Close())
	m := alloc[byte](t, d, 8)
	_, query := s.Query()
	_, since := e.Since(live)
	for name, err := range map[string]error{
		"Query": query, "Since": since,
		"Synchronize": s.Synchronize(t.Context()), "Memcpy": s.Memcpy(m.Addr(), m.Addr(), 1),
		"Memset":  s.Memset(m.Addr(), 0, 1),
		"a value": write(s, m.Addr(), 1), "a wait": await(s, m.Addr(), 1),
		"MemOps": s.MemOps(make([]MemOp, 1)),
		"Record": s.Record(live), "Record closed": open.Record(e), "Wait": s.Wait(live), "Wait closed": open.Wait(e),
		"CopyFrom": m.CopyFrom(t.Context(), s, make([]byte, 8)),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}

// TestPoll: poll returns the result of the query, and the error of the context at its end.
func TestPoll(t *testing.T) {
	var asked atomic.Int64
	must(t, poll(t.Context(), func() (bool, error) { return asked.Add(1) == 100, nil }))
	if asked.Load() != 100 {
		t.Errorf("asked %d times", asked.Load())
	}
	broken := errors.New("broken")
	if err := poll(t.Context(), func() (bool, error) { return false, broken }); err != broken {
		t.Errorf("poll = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := poll(ctx, func() (bool, error) { return false, nil }); err != context.Canceled {
		t.Errorf("poll = %v", err)
	}
	if err := poll(ctx, func() (bool, error) { return true, nil }); err != nil {
		t.Errorf("what is done is done, even after the context: %v", err)
	}
}

// An end after 300 us is seen before 400 us: time.Sleep would take a millisecond, each time. Where the machine has
// other work, too, most waits take longer.
func TestPollIsNotLate(t *testing.T) {
	const after, late = 300 * time.Microsecond, 100 * time.Microsecond
	took := time.Hour
	for begin := time.Now(); took > after+late && time.Since(begin) < 20*time.Second; {
		began := time.Now()
		must(t, poll(t.Context(), func() (bool, error) { return time.Since(began) >= after, nil }))
		took = min(took, time.Since(began))
	}
	if took > after+late {
		t.Errorf("what takes %v was seen after %v, at best", after, took)
	}
}

// TestWrapStream: work that is put into a stream of another library is done in that stream's order, and Close leaves
// the stream alone.
func TestWrapStream(t *testing.T) {
	d := gpus(t, 2)[0]
	theirs, w, done := stream(t, d), flag(t, d), flag(t, d)
	s, err := WrapStream(d, theirs.Handle())
	must(t, err)
	must(t, await(theirs, w.addr, 1))
	must(t, write(s, done.addr, 7))
	if ended, err := s.Query(); ended || err != nil || done.Load() != 0 {
		t.Errorf("the stream waits: %t, %v, %d", ended, err, done.Load())
	}
	w.Store(1)
	must(t, s.Synchronize(t.Context()))
	if done.Load() != 7 || s.Device() != d || s.Handle() != theirs.Handle() {
		t.Errorf("%d was written; stream %#x of %v", done.Load(), s.Handle(), s.Device())
	}
	must(t, s.Close())
	wantError(t, s.MemOps([]MemOp{{Addr: done.addr}}), ErrClosed)
	must(t, write(theirs, done.addr, 8))
	must(t, theirs.Synchronize(t.Context()))
	for _, h := range []uintptr{0, 1, 2} { // default streams
		_, err = WrapStream(d, h)
		wantError(t, err, ErrNotSupported, d.UUID())
	}
	all, _ := Devices()
	_, err = WrapStream(all[1], theirs.Handle())
	wantError(t, err, ErrWrongDevice, all[1].UUID(), "stream of another device")
}

// TestHandleKeeps: a stream whose handle was given away is not closed by the collector, whatever refers to it.
func TestHandleKeeps(t *testing.T) {
	d := gpus(t, 1)[0]
	theirs, err := d.NewStream()
	must(t, err)
	handle, end := theirs.Handle(), theirs.Close // which keeps the resource, and not the stream
	theirs = nil
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	s, err := WrapStream(d, handle)
	must(t, err)
	must(t, errors.Join(s.Synchronize(t.Context()), s.Close(), end()))
}
