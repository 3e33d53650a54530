package sparse

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective"
)

// playing is a machine on which forms take other times than are predicted.
type playing struct {
	predicted, takes [formEnd]float64 // us; 0: the form cannot run
	noise            float64          // a call takes up to so much more, in parts
	rnd              *rand.Rand
	x                experience
	at               occasion
	unlucky          int // how many calls from the first on take three times as long
}

// call makes a call, and returns the form that ran.
func (p *playing) call() Form {
	var e estimate
	for f, us := range p.predicted {
		e.us[f] = micro(us)
	}
	p.x.correct(p.at, &e)
	us := p.takes[e.form] * (1 + p.noise*p.rnd.Float64())
	if p.unlucky > 0 {
		us, p.unlucky = 3*us, p.unlucky-1
	}
	p.x.note(us)
	return e.form
}

// quickest returns what the quickest form takes.
func (p *playing) quickest() float64 {
	best := math.Inf(1)
	for _, us := range p.takes {
		if us > 0 {
			best = min(best, us)
		}
	}
	return best
}

func drawPlaying(t *rapid.T) *playing {
	p := &playing{rnd: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))}
	for _, f := range []Form{Trees, Aggregators, Dense, Shared} {
		if f == Shared && rapid.Bool().Draw(t, "several hosts") {
			continue
		}
		p.predicted[f] = rapid.Float64Range(10, 1e6).Draw(t, "predicted")
		p.takes[f] = p.predicted[f] * rapid.Float64Range(0.4, 3.5).Draw(t, "off")
	}
	return p
}

// Of forms that ran, the one is chosen that takes no more than 5 % longer than any
// other of them, whatever was predicted; and those that never run looked slower, as
// predictions go, than what the chosen one takes.
func TestChoiceSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaying(t)
		ran := make(map[Form]bool)
		var last Form
		for range 40 {
			last = p.call()
			ran[last] = true
		}
		sum, n := 0.0, 0.0
		for f := range ran {
			sum, n = sum+p.takes[f]/p.predicted[f], n+1
		}
		counted := make(map[Form]int)
		for range 200 {
			counted[p.call()]++
		}
		for f, us := range p.takes {
			switch f := Form(f); {
			case us == 0 && counted[f] > 0:
				t.Fatalf("%v cannot run and did", f)
			case ran[f] && p.takes[last]*stay > us*1.001 && counted[last] > 50:
				t.Fatalf("%v takes %.0f and ran %d times of 200, %v takes %.0f", last, p.takes[last], counted[last], f, us)
			case us > 0 && !ran[f] && p.predicted[f]*hope*p.takes[last]/p.predicted[last] < p.takes[last]*stay*0.999 && n == 1:
				t.Fatalf("%v was never tried, predicted %.0f, while %v ran: %.0f, takes %.0f", f, p.predicted[f], last,
					p.predicted[last], p.takes[last])
			}
		}
	})
}

// Where the form that is the quickest is predicted to be so within a factor of 1.1 of
// the others, all calls together take no more than half as long again as if it had run always, noise and
// slow first calls or not.
func TestChoiceCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaying(t)
		p.noise = rapid.Float64Range(0, 0.3).Draw(t, "noise")
		p.unlucky = rapid.IntRange(0, 2).Draw(t, "unlucky")
		us := rapid.Float64Range(10, 1e6).Draw(t, "all")
		for f := range p.predicted {
			if p.predicted[f] > 0 {
				p.takes[f] *= us / p.predicted[f]
				p.predicted[f] = us * rapid.Float64Range(1, 1.1).Draw(t, "again")
			}
		}
		const calls = 400
		sum := 0.0
		for range calls {
			sum += p.takes[p.call()]
		}
		if mean, best := sum/calls, p.quickest(); mean > 1.5*best {
			t.Fatalf("a call takes %.1f, the quickest form %.1f: %.1f", mean, best, p.takes)
		}
	})
}

// A price that is right is not corrected into a wrong choice: as long as forms take
// what was predicted, but for a factor that is common to all, the cheapest one runs, or
// one that is nearly as cheap.
func TestChoiceOfRightPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaying(t)
		common := rapid.Float64Range(0.5, 3).Draw(t, "common")
		for f := range p.takes {
			p.takes[f] = p.predicted[f] * common
		}
		for i := range 300 {
			if f := p.call(); p.takes[f]*(hope-hopeMore*(mostTimes-1))*stay > p.quickest()*1.001 {
				t.Fatalf("call %d ran as %v, which takes %.0f, the quickest %.0f", i, f, p.takes[f], p.quickest())
			}
		}
	})
}

// Ranks learn the same, however unlike the times are that they take themselves: of every call
// all have the same prediction and run it in the same form, and calls change what is predicted.
func TestRanksLearnTheSame(t *testing.T) {
	const calls = 60
	hosts := []int{0, 0, 1}
	seen := make([][]Stats, len(hosts))
	mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
		rnd := rand.New(rand.NewPCG(3, uint64(c.Rank())))
		x := make([]float32, 20000)
		for i := range calls {
			if rnd.IntN(4) == 0 {
				time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
			}
			clear(x)
			for k := 0; k < len(x); k += []int{1, 300, 5000}[i%3] {
				x[k] = 1
			}
			st, err := AllReduce(t.Context(), c, x, x, collective.Sum)
			if err != nil {
				return err
			}
			seen[c.Rank()] = append(seen[c.Rank()], st)
		}
		return nil
	})
	changed := 0
	for i := range calls {
		for r := range seen {
			if a, b := seen[0][i], seen[r][i]; a.Form != b.Form || a.Predicted != b.Predicted {
				t.Fatalf("call %d: rank 0 runs %v, predicted %v; rank %d %v, %v", i, a.Form, a.Predicted, r, b.Form, b.Predicted)
			}
		}
		if i >= 3 && seen[0][i].Predicted != seen[0][i-3].Predicted {
			changed++
		}
	}
	if changed < calls/4 {
		t.Errorf("predictions changed %d times in %d calls", changed, calls)
	}
}

// The same times make the same choices; what is not told changes nothing; and memory has a
// bound.
func TestExperienceIsOfTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := [2]experience{}
		for range rapid.IntRange(1, 100).Draw(t, "calls") {
			o := occasion{apart: rapid.Bool().Draw(t, "apart"), union: int8(rapid.IntRange(0, 3).Draw(t, "union"))}
			o.call.count = rapid.Uint64Range(0, 300).Draw(t, "octave")
			var e [2]estimate
			for _, f := range []Form{Trees, Dense, Shared} {
				e[0].us[f] = time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "ns"))
			}
			e[1] = e[0]
			took := rapid.Float64Range(0, 1e6).Draw(t, "took")
			for q := range ranks {
				ranks[q].correct(o, &e[q])
				ranks[q].note(took)
				ranks[q].note(1) // of no call
				if len(ranks[q].cases) > mostCases+1 {
					t.Fatalf("%d cases are kept", len(ranks[q].cases))
				}
			}
			if e[0] != e[1] {
				t.Fatalf("ranks predict %v and %v", e[0], e[1])
			}
		}
	})
}

// Neighbouring densities are the like of each other, those of another octave are not.
func TestOctave(t *testing.T) {
	for density, want := range map[float64]int8{1: 0, 0.98: 0, 0.8: 0, 0.4: 1, 0.2: 2, 0.1: 3, 0.01: 7, 0: 20} {
		if got := octave(density); got != want {
			t.Errorf("octave of %g: %d, want %d", density, got, want)
		}
	}
}
