package comm

import (
	"testing"
	"time"
)

// day runs calls of the given length, one after the other, until a Pace has them measure or the time is over, and
// returns the time then.
func day(p *Pace, from, until, call time.Duration, ratio float64) (now time.Duration, measures bool) {
	for now = from; now < until; {
		now += call
		if p.see(now, call, ratio) {
			return now, true
		}
	}
	return now, false
}

// Calls that take as long as predicted, or about, never have anything measured.
func TestPaceOfHealthyCalls(t *testing.T) {
	p := newPace()
	for now := time.Duration(0); now < time.Hour; {
		for _, ratio := range []float64{1, 1.3, 0.8, 2, 1} { // a single call may take longer
			if now += 250 * time.Millisecond; p.see(now, 250*time.Millisecond, ratio) {
				t.Fatalf("measures after %v", now)
			}
		}
	}
}

// A slow link is measured after two seconds of slow calls, and its recovery as soon as the time spent is small.
func TestPaceOfSlowLink(t *testing.T) {
	p := newPace()
	now, measures := day(&p, 0, time.Minute, 250*time.Millisecond, 1.02)
	if measures {
		t.Fatal("measures calls that are as predicted")
	}
	fell := now
	if now, measures = day(&p, now, time.Hour, time.Second, 4); !measures || now-fell != 2*time.Second {
		t.Fatalf("measures %v after the fall", now-fell)
	}
	p.measured(now, now+500*time.Millisecond, true, true)
	now += 500 * time.Millisecond
	back := now
	if now, measures = day(&p, now, time.Hour, 400*time.Millisecond, 0.6); !measures || now-back < p.Rest {
		t.Fatalf("measures %v after the recovery", now-back)
	}
	if now < 50*time.Second {
		t.Errorf("500 ms are more than 1 %% of %v", now)
	}
	p.measured(now, now+100*time.Millisecond, true, false)
	if now, measures = day(&p, now, now+time.Hour, time.Second, 1); measures {
		t.Errorf("measures again at %v", now)
	}
}

// A rate that plans do not use any more is looked for at rising intervals, and not at all once it is back.
func TestPaceOfUnusedLink(t *testing.T) {
	p := newPace()
	p.measured(10*time.Second, 10*time.Second+100*time.Millisecond, true, true)
	now := 11 * time.Second
	var every []time.Duration
	for range 6 {
		next, measures := day(&p, now, now+10*time.Hour, time.Second, 1)
		if !measures {
			t.Fatalf("does not look after %v", now)
		}
		every = append(every, next-now)
		p.measured(next, next+100*time.Millisecond, false, true)
		now = next
	}
	for i := range every[1:] {
		if every[i+1] < 3*every[i]/2 {
			t.Errorf("it looks every %v", every)
		}
	}
	p.measured(now, now, true, false)
	if now, measures := day(&p, now, now+time.Hour, time.Second, 1); measures {
		t.Errorf("looks at %v though all is as at the beginning", now)
	}
}

// Predictions that are wrong by themselves cost one measurement, and a change from then on another.
func TestPaceOfWrongPredictions(t *testing.T) {
	for _, wrong := range []float64{0.4, 3} {
		p := newPace()
		now, measures := day(&p, 0, time.Hour, time.Second, wrong)
		if !measures || now > 3*time.Second {
			t.Fatalf("%v: measures after %v", wrong, now)
		}
		p.measured(now, now+time.Second, false, false)
		if now, measures = day(&p, now, now+time.Hour, time.Second, wrong); measures {
			t.Fatalf("%v: measures the same again after %v", wrong, now)
		}
		if _, measures = day(&p, now, now+time.Hour, time.Second, 2*max(wrong, 1)); !measures {
			t.Errorf("%v: takes calls that are still slower for the same", wrong)
		}
	}
}

// However calls behave, at most a hundredth of the time is spent, but for the latest measurement, and changes are ten
// seconds apart.
func TestPaceLimits(t *testing.T) {
	p := newPace()
	const cost = 300 * time.Millisecond
	var now, spent, changed time.Duration
	for i := 0; now < 3*time.Hour; i++ {
		now += time.Second
		if !p.see(now, time.Second, []float64{5, 5, 5, 0.1, 0.1}[i/7%5]) {
			continue
		}
		if spent > now/100 || changed > 0 && now-changed < p.Rest {
			t.Fatalf("measures at %v, the latest change was at %v, %v are spent", now, changed, spent)
		}
		p.measured(now, now+cost, i%3 > 0, i%2 == 0)
		now += cost
		if spent += cost; i%3 > 0 {
			changed = now
		}
	}
	if spent < time.Minute {
		t.Errorf("only %v in %v", spent, now)
	}
}
