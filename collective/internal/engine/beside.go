package engine

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
)

// Beside is the exchange of a goroutine of this rank during the rank's calls: rounds of messages, one after the other,
// which move whenever the Engine does. No other messages have their Tag.
type Beside struct {
	Name  string        // of the call that the messages are part of
	Tag   int32         // of the messages
	Moved chan struct{} // receives one value after each round; its capacity is one

	round []Pass // that the goroutine has requested
	next  *Beside
	under []*Message
	ended atomic.Bool // the goroutine requests no more
	known bool        // by the Engine
}

// Ask begins a round of b, whose slices are the Engine's until Moved. The goroutine of b calls it, once for each Moved.
func (e *Engine) Ask(b *Beside, round []Pass) {
	b.round = round
	for swapped := false; !swapped; {
		b.next = e.asked.Load()
		swapped = e.asked.CompareAndSwap(b.next, b)
	}
	e.ep.Bell().Ring()
}

// EndBeside ends b. The goroutine of b calls it.
func (e *Engine) EndBeside(b *Beside) {
	b.ended.Store(true)
	e.ep.Bell().Ring()
}

// Ended reports whether the goroutine of b has ended it. Any goroutine may call it.
func (b *Beside) Ended() bool { return b.ended.Load() }

// moveBeside begins the rounds that goroutines have requested, and ends those whose messages are done.
func (e *Engine) moveBeside() (err error) {
	for b := e.asked.Swap(nil); b != nil; b = b.next {
		e.steps++
		if b.under, err = e.Exchange(b.Name, b.Tag, b.round); err != nil {
			return err
		}
		e.beside = append(e.beside, b)
	}
	e.beside = slices.DeleteFunc(e.beside, e.movedBeside)
	if b := e.waitsBeside; b != nil && b.Ended() {
		b.known = true
	}
	return nil
}

// movedBeside reports whether the messages of the round of b are done.
func (e *Engine) movedBeside(b *Beside) bool {
	waits := e.waitsBeside == b
	if !e.passed(b.under, waits) {
		return false
	}
	if waits {
		e.messages.waited = nil
	}
	b.under = nil
	e.steps++
	b.Moved <- struct{}{}
	return true
}

// WaitBeside returns when the goroutine of b has ended it, or with the fault of the Endpoint.
func (e *Engine) WaitBeside(ctx context.Context, b *Beside, w *Waiter) (transport.Fault, bool) {
	if !b.Ended() {
		e.waitsBeside, e.messages.waited = b, nil
		err := w.wait(ctx, e, &b.known, w.Spins)
		if e.waitsBeside = nil; err != nil {
			return e.failWait(err, b.Name, w)
		}
		e.messages.waited = nil
	}
	return e.ep.Aborted()
}
