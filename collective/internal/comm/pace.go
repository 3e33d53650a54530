package comm

import "time"

// Pace judges on rank 0, by the times of large calls and their predictions, when to measure the network again. It has
// no clock: all times count from when the communicator was made.
type Pace struct {
	Off   float64       // the ratio of a time to its prediction from which either is wrong
	Long  time.Duration // the time of calls for which it has to be
	Rest  time.Duration // between two changes of the plans, and before the first search for a rate that is lost
	Share float64       // of the time may go into measuring

	base    float64       // the ratio where nothing has changed: predictions are not exact
	way     int           // 1: calls take longer than they should, -1: less
	length  time.Duration // of calls that did so in a row
	ratio   float64       // the latest one
	spent   time.Duration // on measuring
	changed time.Duration // when the plans have changed; 0: never
	lower   bool          // whether some rate is below that of New
	every   time.Duration // between two searches for that
	search  time.Duration // when the next one is due
}

// newPace returns the Pace of a communicator.
func newPace() Pace {
	return Pace{Off: 1.4, Long: 2 * time.Second, Rest: 10 * time.Second, Share: 0.01, base: 1}
}

// see takes in the calls since it was called last, which took so long in all, and ratio times as long as predicted, and
// reports whether to measure.
func (p *Pace) see(now, took time.Duration, ratio float64) bool {
	p.ratio = ratio
	way := 0
	switch {
	case ratio > p.Off*max(1, p.base):
		way = 1
	case ratio*p.Off < min(1, p.base):
		way = -1
	default:
		p.base = min(max(ratio, min(1, p.base)), max(1, p.base))
	}
	if way != p.way {
		p.way, p.length = way, 0
	}
	p.length += took
	due := way != 0 && p.length >= p.Long || p.lower && now >= p.search
	return due && float64(p.spent) <= p.Share*float64(now) && (p.changed == 0 || now-p.changed >= p.Rest)
}

// measured takes in a measurement, which began and ended then, and whether the plans have changed.
func (p *Pace) measured(began, now time.Duration, changed, lower bool) {
	p.spent += now - began
	p.way, p.length, p.lower = 0, 0, lower
	if changed {
		p.base, p.changed, p.every = 1, now, p.Rest
	} else {
		p.base, p.every = p.ratio, 2*p.every
	}
	p.search = now + p.every
}
