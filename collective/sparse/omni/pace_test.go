package omni

import (
	"testing"

	"pgregory.net/rapid"
)

const ms = 1_000_000

// The wait follows the round trips, the short ones quickly; it is at least 2 ms. What
// is sent in vain makes it longer, and what was lost does not.
func TestPaceWait(t *testing.T) {
	p := NewPace(8)
	p.Sent(0, 0, true)
	if at, ok := p.Next(); !ok || at != 4*firstWait {
		t.Errorf("the first packet is sent again at %d", at)
	}
	p.Answered(0, 100*ms, true) // others began late: that is no round trip
	now := int64(100 * ms)
	turns := func(n int, trip int64) {
		for range n {
			p.Sent(0, now, false)
			now += trip
			p.Answered(0, now, false)
		}
	}
	if p.wait != firstWait {
		t.Errorf("before a round trip is known: wait %d", p.wait)
	}
	turns(100, 10*ms)
	if p.wait != 20*ms {
		t.Errorf("after round trips of 10 ms: wait %d", p.wait)
	}
	turns(10, 30*ms)
	if p.wait > 40*ms {
		t.Errorf("after ten of 30 ms: wait %d", p.wait)
	}
	turns(20, ms/100)
	if p.wait != leastWait {
		t.Errorf("after round trips of 10 us: wait %d", p.wait)
	}
	for range 40 { // lost
		p.Sent(0, now, false)
		now += p.wait
		if p.Expired(now) != 0 || p.Expired(now) != -1 {
			t.Fatal("it does not expire once")
		}
		now += ms
		p.Answered(0, now, false)
	}
	if p.wait != leastWait {
		t.Errorf("after losses: wait %d", p.wait)
	}
	turns(200, ms)
	short := p.wait
	for range 40 { // in vain
		p.Sent(0, now, false)
		now += p.wait
		p.Expired(now)
		p.Heard(0)
		now += 100 * ms
		p.Answered(0, now, false)
	}
	if p.wait < 10*short || p.wait > mostWait {
		t.Errorf("after packets that were sent again in vain: wait %d, was %d", p.wait, short)
	}
	turns(500, ms)
	if p.wait != short {
		t.Errorf("after quick answers: wait %d, was %d", p.wait, short)
	}
}

// The window is halved once for what is lost in a round trip, grows again, and comes
// back at once when nothing was lost.
func TestPaceWindow(t *testing.T) {
	p := NewPace(64)
	if p.Window() != firstWindow {
		t.Fatalf("window %d at first", p.Window())
	}
	now := int64(0)
	turn := func(streams int) {
		for s := range streams {
			p.Sent(s, now, false)
		}
		now += ms
		for s := range streams {
			p.Answered(s, now, false)
		}
	}
	turn(16)
	turn(32)
	if p.Window() != 64 {
		t.Errorf("window %d after 48 answers", p.Window())
	}
	for s := range 64 {
		p.Sent(s, now, false)
	}
	if p.Ready() {
		t.Error("more than the window may be sent")
	}
	now += mostWait
	n := 0
	for p.Expired(now) >= 0 {
		n++
	}
	if n != 64 || p.Window() != 32 {
		t.Errorf("%d of 64 expire, window %d", n, p.Window())
	}
	p.Heard(0)
	if p.Window() != 64 || p.flying != 63 || p.Ready() != true {
		t.Errorf("one was heard: window %d with %d under way", p.Window(), p.flying)
	}
	now += mostWait
	for p.Expired(now) >= 0 {
	}
	for s := range 64 {
		p.Answered(s, now, false)
	}
	if w := p.Window(); w < 33 || w > 34 || p.flying != 0 {
		t.Errorf("window %d after a loss and 64 answers, %d under way", w, p.flying)
	}
}

// Whatever happens, the window keeps its bounds and what is under way is counted
// right, and every packet that got no answer expires.
func TestPaceKeepsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		streams := rapid.IntRange(1, 40).Draw(t, "streams")
		p := NewPace(streams)
		waits := make([]bool, streams)
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, 5*ms).Draw(t, "later")
			s := rapid.IntRange(0, streams-1).Draw(t, "stream")
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what == 0 && !waits[s] && p.Ready():
				p.Sent(s, now, false)
				waits[s] = true
			case what == 1 && waits[s]:
				p.Answered(s, now, false)
				waits[s] = false
			case what == 2 && waits[s]:
				p.Heard(s)
			case what == 3:
				if e := p.Expired(now); e >= 0 && !waits[e] {
					t.Fatalf("stream %d expires, which waits for nothing", e)
				}
			}
			flying := 0
			for s, f := range p.flight {
				if f.flying {
					flying++
				}
				if f.flying && !waits[s] {
					t.Fatalf("stream %d is under way and waits for nothing", s)
				}
			}
			if w := p.Window(); flying != p.flying || w < min(leastWindow, streams) || w > streams {
				t.Fatalf("%d under way, counted %d, window %d of %d", flying, p.flying, w, streams)
			}
		}
		now += longest * mostWait * 2
		for s := p.Expired(now); s >= 0; s = p.Expired(now) {
			waits[s] = false
		}
		for s, w := range waits {
			if w {
				t.Fatalf("stream %d never expires", s)
			}
		}
	})
}
