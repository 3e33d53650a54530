package probe

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo/network"
)

// Bytes that come in bursts count at the rate at which they come.
func TestCurve(t *testing.T) {
	begin := time.Now()
	c := &curve{begin: begin}
	c.add(begin.Add(100*time.Microsecond), 60_000) // a token bucket lets these through at once
	for i := 1; i <= 100; i++ {
		c.add(begin.Add(time.Duration(i)*time.Millisecond), 16_000)
	}
	for _, c2 := range []struct{ from, to, want float64 }{{8, 40, 0.016}, {8.5, 12.5, 0.016}, {50, 51, 0.016},
		{120, 130, 0}, {90, 110, 0.008}} {
		ms := func(v float64) time.Duration { return time.Duration(v * 1e6) }
		if got := c.rate(ms(c2.from), ms(c2.to)); math.Abs(got-c2.want) > 0.01*c2.want {
			t.Errorf("%v to %v ms: %v GB/s, want %v", c2.from, c2.to, got, c2.want)
		}
	}
	if (&curve{}).rate(0, 1) != 0 || c.rate(5, 5) != 0 {
		t.Error("a rate of nothing")
	}
	c.add(begin, 1) // a clock that stands still
	if last := len(c.when) - 1; c.when[last] != c.when[last-1] {
		t.Error("the curve goes back in time")
	}
}

// Between two notes bytes come evenly; none come before the first one and after the last one.
func TestCurveOfTwoNotes(t *testing.T) {
	c := &curve{begin: time.Now()}
	c.add(c.begin.Add(time.Millisecond), 100)
	c.add(c.begin.Add(3*time.Millisecond), 200)
	for us, want := range map[time.Duration]float64{500: 0, 2000: 200, 2500: 250, 3000: 300, 4000: 300} {
		if got := c.until(us * time.Microsecond); got != want {
			t.Errorf("%d us: %v bytes, want %v", us, got, want)
		}
	}
}

// The window follows the rate: some milliseconds of it, also when the receiver finds much at once after a pause.
func TestWindow(t *testing.T) {
	begin := time.Now()
	c := &curve{begin: begin}
	w := window{curve: c, least: minWindow, granted: minWindow, back: lookBack}
	const each = 12_500 // a millisecond at 100 Mbit/s
	got := int64(0)
	for i := 1; i <= 200; i++ {
		if i >= 150 && i < 170 {
			continue // asleep
		}
		n := each
		if i == 170 {
			n = 21 * each
		}
		got += int64(n)
		c.add(begin.Add(time.Duration(i)*time.Millisecond), n)
		if grant := w.grant(got); grant > 0 && grant < got {
			t.Fatalf("after %d bytes: a grant of %d", got, grant)
		}
		if under := w.granted - got; under > 250_000 || under < minWindow/2 {
			t.Fatalf("after %d ms: %d bytes may be under way", i, under)
		}
	}
}

// A way of many milliseconds is filled in some trips to and fro.
func TestWindowGrows(t *testing.T) {
	begin := time.Now()
	c := &curve{begin: begin}
	const trip = 20 * time.Millisecond
	w := window{curve: c, least: minWindow, granted: minWindow, back: lookBack + 2*trip}
	got, sent := int64(0), int64(0)
	for i := range 12 {
		sent = w.granted
		c.add(begin.Add(time.Duration(i)*trip), int(sent-got))
		got = sent
		w.grant(got)
	}
	if under := w.granted - got; under < 12<<20 {
		t.Errorf("%d bytes under way after 12 trips, want some MB", under)
	}
}

// stream is a connection that has received some data.
type stream struct {
	net.Conn // nil
	frames   io.Reader
}

func (s stream) Read(b []byte) (int, error)    { return s.frames.Read(b) }
func (s stream) Write(b []byte) (int, error)   { return len(b), nil }
func (s stream) SetDeadline(t time.Time) error { return nil }

// said returns a frame.
func frames(kind byte, body ...byte) []byte {
	return append(strict.AppendHead(nil, kind, len(body)), body...)
}

// FuzzFrames: for any input, a host reads no more than there is, and ends.
func FuzzFrames(f *testing.F) {
	f.Add(slices.Concat(frames(frameData, 1, 2, 3), frames(frameEnd)))
	f.Add(slices.Concat(frames(frameGrant, 0x7f, 0, 0, 0, 0, 0, 0, 0), frames(frameDone)))
	f.Add(frames(frameSync, make([]byte, syncBytes)...))
	f.Add(slices.Concat(frames(framePing), frames(frameEnd)))
	f.Add(strict.AppendHead(nil, frameData, dataBytes+1))
	f.Fuzz(func(t *testing.T, frames []byte) {
		fresh := func() *line {
			l := newLine(0, 1, "peer", stream{frames: bytes.NewReader(frames)})
			l.in = bufio.NewReaderSize((*counted)(l), 16) // as small as can be
			return l
		}
		if flow, err := fresh().drain(time.Now(), paceOf(network.Quick, shared{}, 20), minWindow); err == nil &&
			flow.Bytes > int64(len(frames)) {
			t.Errorf("%d bytes of data in %d", flow.Bytes, len(frames))
		}
		if s, err := fresh().receiveSync(0); err == nil && (s.Trip < 0 || s.Trip > longestTrip) {
			t.Errorf("a trip of %v", s.Trip)
		}
		if err := fresh().answer(); err == nil && len(frames) < 8 {
			t.Error("an end out of nothing")
		}
		if err := fresh().pour(payload(), time.Now(), 0); err == nil && len(frames) < 8 {
			t.Error("the end of a flow out of nothing")
		}
	})
}
