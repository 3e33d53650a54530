package omni

// Pace says how many packets a worker of Algorithm 2 may have under way and when
// one that got no answer is to be sent again. Times are nanoseconds on the caller's
// clock.
//
// An answer comes when the slowest worker has sent, and what others wait for must
// not make this one wait longer, or all of them would slow down together. So the
// round trip is not the mean of RFC 6298 but follows short ones quickly and long
// ones slowly; only packets that were sent once count, as there (Karn). The wait is
// twice that, times a slack, which grows when the aggregator says of a packet that
// came again that it was there already, and shrinks as answers come. Every repetition
// of a packet doubles its own wait (Timers).
//
// The window grows by one for each answer, later for each window of answers, and is
// halved when something was lost, at most once per round trip (AIMD; Jacobson,
// "Congestion avoidance and control", SIGCOMM 1988). It comes back when nothing was.
type Pace struct {
	timers *Timers
	first  int64        // no timer expires before
	flight []sentPacket // by stream
	flying int

	trip  float64 // a round trip; 0 before the first
	slack float64
	wait  int64

	window   float64 // packets
	slow     float64 // from where on the window grows slowly
	most     float64
	halved   int64   // when
	undo     float64 // the window before it was halved, 0: for good
	undoSlow float64
}

// sentPacket is the packet of a stream that waits for its result.
type sentPacket struct {
	sent   int64
	flying bool // it may be under way: it counts
	again  bool // it was sent more than once, so its answer says nothing of the round trip
	heard  bool // ... in vain
}

// Limits of a Pace: waits in ns, windows in packets.
const (
	firstWait   = 30e6
	leastWait   = 2e6
	mostWait    = 250e6
	mostSlack   = 16
	firstWindow = 16
	leastWindow = 8
	patience    = 4 // waits, for the first round, which not all begin at once
)

// NewPace returns the pace of so many streams.
func NewPace(streams int) *Pace {
	return &Pace{
		timers: NewTimers(streams, firstWait), first: never, flight: make([]sentPacket, streams), wait: firstWait, slack: 1,
		window: min(firstWindow, float64(max(streams, 1))), slow: float64(streams), most: float64(max(streams, 1)),
	}
}

// Window returns how many packets may be under way.
func (p *Pace) Window() int { return int(p.window) }

// Ready reports whether another packet may be sent.
func (p *Pace) Ready() bool { return p.flying < int(p.window) }

// Sent says that the packet of a round was sent for the first time. begin: it is the
// first round of a tensor.
func (p *Pace) Sent(stream int, now int64, begin bool) {
	f := &p.flight[stream]
	p.land(f)
	*f = sentPacket{sent: now, flying: true}
	p.flying++
	times := int64(1)
	if begin {
		times = patience
	}
	p.timers.Sent(stream, now, times)
	p.first = min(p.first, now+times*p.wait)
}

// land says that the packet of a flight is under way no more.
func (p *Pace) land(f *sentPacket) {
	if f.flying {
		f.flying = false
		p.flying--
	}
}

// Answered says that the result of a stream's round came. begin: it is the first of
// a tensor, of which ranks begin at different times.
func (p *Pace) Answered(stream int, now int64, begin bool) {
	f := &p.flight[stream]
	p.land(f)
	p.timers.Ended(stream)
	if p.window < p.slow {
		p.window++
	} else {
		p.window += 1 / p.window
	}
	p.window = min(p.window, p.most)
	switch {
	case f.heard:
	case f.again:
		p.slack = max(1, p.slack*0.9) // it was lost: nobody waited too little
	default:
		p.slack = max(1, p.slack*0.99)
		if !begin {
			p.sample(float64(now - f.sent))
		}
	}
	p.setWait()
}

// sample takes in a round trip.
func (p *Pace) sample(trip float64) {
	switch {
	case p.trip == 0:
		p.trip = trip
	case trip < p.trip:
		p.trip += (trip - p.trip) / 2
	default:
		p.trip += (trip - p.trip) / 32
	}
}

func (p *Pace) setWait() {
	wait := 2 * p.trip
	if p.trip == 0 {
		wait = firstWait
	}
	p.wait = int64(min(max(wait*p.slack, leastWait), mostWait))
	p.timers.Wait(p.wait)
}

// Heard says that the aggregator has a packet that was sent again: it was not lost,
// nor is it under way, and the wait was too short.
func (p *Pace) Heard(stream int) {
	f := &p.flight[stream]
	p.land(f)
	if !f.heard {
		f.heard = true
		p.slack = min(p.slack*1.25, mostSlack)
		p.setWait()
	}
	if p.undo > 0 {
		p.window, p.slow, p.undo = max(p.window, p.undo), max(p.slow, p.undoSlow), 0
	}
}

// Expired returns a stream whose packet is to be sent again, and counts it as sent
// now; -1 if there is none.
func (p *Pace) Expired(now int64) int {
	if now < p.first {
		return -1
	}
	stream := p.timers.Expired(now)
	if stream < 0 {
		p.first, _ = p.timers.Next()
		return -1
	}
	f := &p.flight[stream]
	f.again = true
	if !f.flying {
		f.flying = true // more than the window, for once
		p.flying++
	}
	if now-p.halved >= p.wait {
		p.halved, p.undo, p.undoSlow = now, p.window, p.slow
		p.window = max(p.window/2, min(leastWindow, p.most))
		p.slow = p.window
	}
	return stream
}

// Next returns when Expired is to be asked again at the latest, and whether at all.
func (p *Pace) Next() (int64, bool) { return p.first, p.first != never }
