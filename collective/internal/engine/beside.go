package engine

import (
	"context"
	"slices"

	"github.com/treerun/treerun/transport"
)

// Beside is the exchange of a goroutine of this rank during the rank's calls: rounds of messages, one after the other,
// which move whenever the Engine does. No other messages have their Tag.
type Beside struct {
	Name  string        // of the call that the messages are part of
	Tag   int32         // of the messages
	Moved chan struct{} // receives one value after each round; its capacity is one

	round []Pass // that the goroutine has requested; nil: no more
	under []*Message
	ended bool
	next  *Beside
}

// Ask begins a round of b, whose slices are the Engine's until Moved, or ends b, if round is nil. Any goroutine may
// call it.
func (e *Engine) Ask(b *Beside, round []Pass) {
	b.round = round
	for swapped := false; !swapped; {
		b.next = e.asked.Load()
		swapped = e.asked.CompareAndSwap(b.next, b)
	}
	e.ep.Bell().Ring()
}

// moveBeside begins the rounds that goroutines have requested, and ends those whose messages are done.
func (e *Engine) moveBeside() (err error) {
	for b := e.asked.Swap(nil); b != nil; b = b.next {
		e.steps++
		if b.round == nil {
			b.ended = true
			continue
		}
		if b.under, err = e.Exchange(b.Name, b.Tag, b.round); err != nil {
			return err
		}
		e.beside = append(e.beside, b)
	}
	e.beside = slices.DeleteFunc(e.beside, func(b *Beside) bool {
		for _, p := range b.under {
			if !p.done {
				if e.waitsBeside == b {
					e.messages.waited = p
				}
				return false
			}
		}
		e.steps++
		b.Moved <- struct{}{}
		return true
	})
	return nil
}

// WaitBeside returns when the goroutine of b has ended it, or with the fault of the Endpoint.
func (e *Engine) WaitBeside(ctx context.Context, b *Beside, w *Waiter) (transport.Fault, bool) {
	if !b.ended {
		e.waitsBeside, e.messages.waited = b, nil
		err := w.wait(ctx, e, &b.ended, w.Spins)
		e.waitsBeside, e.messages.waited = nil, nil
		if err != nil {
			return e.failWait(err, b.Name, w)
		}
	}
	return e.ep.Aborted()
}

// Ended reports whether the Engine knows that b has ended.
func (b *Beside) Ended() bool { return b.ended }
