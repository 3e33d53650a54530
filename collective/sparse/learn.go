package sparse

import (
	"math"
	"math/bits"
	"time"
)

// experience is what calls by price took beside what was predicted, and corrects
// predictions by it: no price knows how busy a machine is, or what a form costs on
// every kind of it. All ranks have the same, as they note the same times of the same
// calls. It is of one goroutine at a time.
//
// A form that did not run in the like of a call yet is taken to be as much off as those
// that did, and a little better, the more so the more calls it would pay for, so that it is
// tried where it can be the quickest. A
// form that has lost is forgotten, slowly, and tried again: soon where it ran once, as its
// call may have met fresh memory or others at work, and in hundreds of calls where it
// ran often.
type experience struct {
	cases map[occasion]*results
	last  attempt // of which nobody has told the time
}

// occasion is the like of a call.
type occasion struct {
	call        call // its count is of bytes, in octaves; its threshold 0 or 1
	apart       bool
	mean, union int8 // octaves below 1, -1 for the dense form, to which they are the same
}

// results are what forms took on an occasion.
type results struct {
	of     [formEnd]outcome
	chosen Form // at last; ByPrice: none
}

// outcome is what a form took, in parts of what was predicted.
type outcome struct {
	off   float64
	times int     // it ran
	faded float64 // how much of off is forgotten, 0 to 1
}

// attempt is a call in a form that was predicted to take so long.
type attempt struct {
	at   occasion
	form Form
	us   float64
}

const (
	mostOff   = 4.0  // factor by which a price is off at most,
	mostNew   = 1.6  // and one call more than what is known
	hope      = 0.85 // of it is what a form takes that nobody knows,
	hopeMore  = 0.02 // less after each call
	stay      = 0.95
	mostTimes = 8 // that count
	mostCases = 256
)

// learn takes in what the ranks have told of the latest call by price, and has what is
// known correct the estimate of this one.
func (r *reduction) learn(all []hello, e *estimate) {
	took := 0.0
	for q := range all {
		took = max(took, float64(all[q].took))
	}
	r.known.note(took)
	r.known.correct(r.occasionOf(e), e)
}

// occasionOf returns where a call belongs.
func (r *reduction) occasionOf(e *estimate) occasion {
	o := occasion{call: r.call, apart: e.apart, mean: octave(e.mean), union: octave(e.union)}
	o.call.count = uint64(bits.Len(uint(r.grid.Bytes())))
	if o.call.threshold != 0 {
		o.call.threshold = 1
	}
	return o
}

// octave says how many times 1 has to be halved for a density, about.
func octave(density float64) int8 {
	_, e := math.Frexp(max(density, 1e-6) * math.Sqrt2)
	return int8(max(1-e, 0))
}

// dense is the occasion under which the dense form is known.
func (o occasion) dense() occasion {
	o.mean, o.union = -1, -1
	return o
}

// known returns what is known of a form, nil if nothing is.
func (x *experience) known(o occasion, f Form) *outcome {
	if f == Dense {
		o = o.dense()
	}
	if c := x.cases[o]; c != nil && c.of[f].times > 0 {
		return &c.of[f]
	}
	return nil
}

// correct corrects what the forms are predicted to take, and chooses one. The form that
// ran on this occasion before is left for one that is clearly better.
func (x *experience) correct(o occasion, e *estimate) {
	x.last = attempt{at: o}
	raw := e.us
	before := Dense
	if c := x.cases[o]; c != nil && c.chosen != ByPrice {
		before = c.chosen
	}
	if like := x.known(o, before); like != nil && e.us[before] > 0 {
		e.learnt = true
		for f := range e.us {
			off := like.off * (hope - hopeMore*float64(like.times-1))
			if k := x.known(o, Form(f)); k != nil {
				off = k.off - (k.off-min(like.off*hope, k.off))*k.faded
			}
			e.us[f] = time.Duration(float64(e.us[f]) * off)
		}
	}
	e.choose(Dense, Trees, Aggregators, Shared)
	if x.cases[o] != nil && e.us[before] > 0 && float64(e.us[before])*stay <= float64(e.us[e.form]) {
		e.form = before
	}
	x.last.form, x.last.us = e.form, float64(raw[e.form].Nanoseconds())/1e3
}

// note takes in what the call after the latest correct took on its slowest rank; 0: nobody
// knows.
func (x *experience) note(us float64) {
	t := x.last
	x.last = attempt{}
	if t.us <= 0 || us <= 0 {
		return
	}
	if len(x.cases) > mostCases-2 {
		x.cases = nil // at must not do it in between
	}
	c := x.at(t.at)
	c.chosen = t.form
	own := c
	if t.form == Dense {
		own = x.at(t.at.dense())
	}
	for f := range c.of {
		c.of[f].fade()
	}
	if d := x.cases[t.at.dense()]; d != nil {
		d.of[Dense].fade()
	}
	own.of[t.form].add(max(1/mostOff, min(us/t.us, mostOff)))
}

// at returns what is known of an occasion, to add to it.
func (x *experience) at(o occasion) *results {
	c := x.cases[o]
	if c == nil {
		if x.cases == nil || len(x.cases) >= mostCases {
			x.cases = make(map[occasion]*results)
		}
		c = new(results)
		x.cases[o] = c
	}
	return c
}

// add takes in one more call. One that took long may have met others at work; one that did
// not was no luck.
func (k *outcome) add(off float64) {
	k.faded = 0
	k.times = min(k.times+1, mostTimes)
	weight := 1 / float64(k.times)
	switch {
	case k.times == 1:
	case off < k.off:
		weight = 0.5
	default:
		off, weight = min(off, k.off*mostNew), max(weight, 0.2)
	}
	k.off += (off - k.off) * weight
}

// fade forgets a little, the less the more often the form ran.
func (k *outcome) fade() {
	if k.times > 0 {
		k.faded += (1 - k.faded) / float64(10*k.times*k.times)
	}
}
