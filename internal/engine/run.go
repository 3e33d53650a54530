package engine

import (
	"context"
	"errors"

	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Start begins call c of the program: its chunks begin to move as far as they
// can now. The calls under way are done in the order of Start. An error is for
// Fail; a fault of the Endpoint that is there already is for Wait to find.
func (pr *Program) Start(c *Call) error {
	c.program, c.next, c.left, c.done = pr, nil, len(pr.tracks), false
	c.stream = streams(c)
	c.wide = pr.wide && pr.lendsOwn(c.Header.Kind, int64(c.Header.Count)*int64(c.DType.Size()))
	pr.prepareLending(c)
	pr.record(c)
	pr.ep.Enter(&c.Header)
	pr.push(c)
	return pr.poll()
}

// Run executes the program for call c and returns when this rank's part of it,
// and of all calls before it, is done. It returns the fault of the Endpoint
// when the call could not be completed here or on any other rank; the Endpoint
// is then of no further use. A cancelled ctx is such a fault.
func (pr *Program) Run(ctx context.Context, c *Call, w *Waiter) (transport.Fault, bool) {
	err := pr.Start(c)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return pr.failWait(err, Describe(c.Header), w)
	}
	return pr.Wait(ctx, c, w)
}

// Wait returns when c, which Start began, is done, or with the fault of the
// Endpoint when it cannot be.
func (k *Links) Wait(ctx context.Context, c *Call, w *Waiter) (transport.Fault, bool) {
	if !c.done {
		if err := w.wait(ctx, k, &c.done, w.polls(k, c)); err != nil {
			return k.failWait(err, Describe(c.Header), w)
		}
	}
	return k.ep.Aborted()
}

// Poll moves the calls under way as far as they can now.
func (k *Links) Poll() error { return k.poll() }

// Fail makes err, which stopped this rank in call c, the fault of the Endpoint,
// unless there is one, and returns the one that counts.
func (k *Links) Fail(err error, c *Call) (transport.Fault, bool) {
	return k.failWait(err, Describe(c.Header), &Waiter{})
}

// failWait is Fail for what stopped a wait in a call or message.
func (k *Links) failWait(err error, doing string, w *Waiter) (transport.Fault, bool) {
	switch {
	case err == errAborted:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, waits.ErrStalled):
		k.ep.Abort(w.WaitFault(err, k.rank, doing, k.lacking()))
		w.Watch.GiveUp()
		return k.ep.Aborted()
	default:
		k.ep.Abort(k.faultOf(err, doing))
	}
	w.Watch.Clear()
	return k.ep.Aborted()
}

// Idle reports whether no call and no message is under way.
func (k *Links) Idle() bool { return k.first == nil && k.messages.first == nil }

// push puts c behind the calls under way.
func (k *Links) push(c *Call) {
	before := k.last
	k.last = c
	if before == nil {
		k.first = c
		k.activate(c)
		return
	}
	before.next = c
	if c.program != k.active || before.program != k.active {
		return // its turn comes when all calls before it are done
	}
	for i := range k.active.tracks {
		if t := &k.active.tracks[i]; t.call == nil && t.seq == before.Header.Seq {
			k.begin(t, c)
		}
	}
}

// activate lets the tracks of the oldest call's program begin with it.
func (k *Links) activate(c *Call) {
	k.active = c.program
	for i := range k.active.tracks {
		k.begin(&k.active.tracks[i], c)
	}
}

// poll lets every track take the steps that it can take now, and ends the calls
// whose tracks have all run.
func (k *Links) poll() error {
	if k.messages.first != nil {
		if err := k.pollMessages(); err != nil {
			return err
		}
	}
	for k.first != nil {
		tracks := k.active.tracks
		again := false
		for i := range tracks {
			if t := &tracks[i]; t.call != nil {
				more, err := k.advance(t)
				if err != nil {
					return err
				}
				again = again || more
			}
		}
		if again {
			continue
		}
		if k.first.left > 0 {
			return nil
		}
		if !k.pop() {
			return nil
		}
	}
	return nil
}

// pop ends the calls that are done, and reports whether another program has
// its turn now.
func (k *Links) pop() bool {
	for c := k.first; c != nil && c.left == 0; c = k.first {
		c.finish()
		k.first = c.next
		if k.first == nil {
			k.last = nil
		} else if k.first.program != c.program {
			k.activate(k.first)
			return true
		}
	}
	return false
}

// advance takes the steps of t until one has to wait or there are no more
// calls for it. After a large chunk it reports that there is more to do: the other
// tracks have their turn first, as other ranks may wait for what they send.
func (k *Links) advance(t *track) (more bool, err error) {
	for {
		for t.chunk < t.chunks {
			var ok bool
			if s := &t.steps[t.next]; t.call.wide {
				ok, err = k.takeWide(t, s)
			} else {
				ok, err = k.take(t, s)
			}
			if err != nil {
				return false, err
			}
			if !ok {
				return false, k.help(t)
			}
			k.steps++
			if t.next++; t.next == len(t.steps) {
				t.next = 0
				t.chunk++
				if t.chunk < t.chunks && t.grain >= turn {
					return true, nil
				}
			}
		}
		c := t.call
		if c.lent && !t.returned() {
			return false, k.help(t) // somebody still reads the caller's memory
		}
		c.left--
		t.call = nil
		if c.next == nil || c.next.program != c.program {
			return false, nil
		}
		k.begin(t, c.next)
	}
}

// turn is the size of a chunk, in bytes, after which other tracks have their turn.
const turn = 16 << 10
