package omni

import "math"

// Timers says when a worker of Algorithm 2 has waited too long for a result and
// must send its last packet again. Times are nanoseconds on the caller's clock,
// whatever its zero. Every repetition of a stream doubles its wait, up to 8
// times the first.
type Timers struct {
	wait int64
	at   []int64 // by stream: when to send again, never if nothing is under way
	back []int64 // by stream: the present wait
}

const (
	never   = math.MaxInt64
	longest = 8 // waits
)

// NewTimers returns the timers of so many streams, of which a packet is sent
// again after wait.
func NewTimers(streams int, wait int64) *Timers {
	t := &Timers{wait: wait, at: make([]int64, streams), back: make([]int64, streams)}
	for i := range t.at {
		t.at[i] = never
	}
	return t
}

// Wait sets after how long packets that are sent from now on are sent again.
func (t *Timers) Wait(wait int64) { t.wait = wait }

// Sent says that a packet of a new round was sent at now. factor multiplies
// the wait: larger than 1 in the first burst, when all streams send at once.
func (t *Timers) Sent(stream int, now, factor int64) {
	t.back[stream] = t.wait * max(factor, 1)
	t.at[stream] = now + t.back[stream]
}

// Ended says that a stream awaits no result.
func (t *Timers) Ended(stream int) { t.at[stream] = never }

// Expired returns a stream whose packet is to be sent again, and counts it as
// sent now; -1 if there is none.
func (t *Timers) Expired(now int64) int {
	for i, at := range t.at {
		if at <= now {
			t.back[i] = min(2*t.back[i], max(t.back[i], longest*t.wait))
			t.at[i] = now + t.back[i]
			return i
		}
	}
	return -1
}

// Next returns when the first stream expires, and whether any will.
func (t *Timers) Next() (int64, bool) {
	first := int64(never)
	for _, at := range t.at {
		first = min(first, at)
	}
	return first, first != never
}
