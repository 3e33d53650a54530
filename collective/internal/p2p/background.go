package p2p

import (
	"slices"
	"sync/atomic"
)

// Background is the exchange of a goroutine of this rank during the rank's calls: rounds of messages, one after the
// other, which move whenever the Queue does. No other messages have their tag.
type Background struct {
	Name  string        // the name of the call that the messages are part of
	Moved chan struct{} // receives one value after each round

	q     *Queue
	tag   int32
	round []Pass // the messages that the goroutine has requested
	next  *Background
	under []*Message
	ended atomic.Bool // whether the goroutine requests no more rounds
	done  bool        // whether the Queue knows that it has ended
}

// NewBackground returns a Background without rounds, whose messages have the tag.
func (q *Queue) NewBackground(name string, tag int32) *Background {
	return &Background{Name: name, Moved: make(chan struct{}, 1), q: q, tag: tag}
}

// Request begins a round, whose slices are the Queue's until Moved. The goroutine of b calls it, once for each Moved.
func (b *Background) Request(round []Pass) {
	b.round = round
	for swapped := false; !swapped; {
		b.next = b.q.backgrounds.requested.Load()
		swapped = b.q.backgrounds.requested.CompareAndSwap(b.next, b)
	}
	b.q.ep.Bell().Ring()
}

// End ends b. The goroutine of b calls it.
func (b *Background) End() {
	b.ended.Store(true)
	b.q.ep.Bell().Ring()
}

// Ended reports whether the goroutine of b has ended it. Any goroutine may call it.
func (b *Background) Ended() bool { return b.ended.Load() }

// DoneFlag returns where the Queue reports that b has ended, for a goroutine that waits for that.
func (b *Background) DoneFlag() *bool { return &b.done }

// backgrounds are the Backgrounds with a round that is not done.
type backgrounds struct {
	requested atomic.Pointer[Background] // those whose round has not begun, latest first
	under     []*Background              // whose round is under way
}

func (b *backgrounds) active() bool { return b.requested.Load() != nil || len(b.under) > 0 }

// moveBackgrounds begins the rounds that goroutines have requested, and ends those whose messages are done.
func (q *Queue) moveBackgrounds() (err error) {
	for b := q.backgrounds.requested.Swap(nil); b != nil; b = b.next {
		q.steps++
		if b.under, err = q.Exchange(b.Name, b.tag, b.round); err != nil {
			return err
		}
		q.backgrounds.under = append(q.backgrounds.under, b)
	}
	q.backgrounds.under = slices.DeleteFunc(q.backgrounds.under, (*Background).endRoundIfDone)
	if b := q.WaitedBackground; b != nil && b.Ended() {
		b.done = true
	}
	return nil
}

// endRoundIfDone ends the round of b if its messages are done, and reports whether they are. While this rank waits for
// b, it sets the Queue's Waited to the first message that is not done.
func (b *Background) endRoundIfDone() bool {
	p := Pending(b.under)
	if b.q.WaitedBackground == b {
		b.q.Waited = p
	}
	if p != nil {
		return false
	}
	b.under = nil
	b.q.steps++
	b.Moved <- struct{}{}
	return true
}
