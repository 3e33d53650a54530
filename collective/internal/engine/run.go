package engine

import (
	"context"
	"errors"

	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// streamFrom is the size of a result, in bytes, from which it is written past the caches: its readers have to fetch it
// from memory anyway, and the parts of the links that the caches hold stay there.
const streamFrom = 32 << 20

// Start begins call c of the program, which Engine.Poll moves. The calls under way are done in the order of Start.
func (pr *Program) Start(c *Call) {
	e := pr.e
	c.program, c.next, c.left, c.done = pr, nil, len(pr.tracks), false
	c.stream = c.bytes() >= streamFrom
	c.wide = pr.wide && e.reaches && (c.ID.CountsByPair() || e.lendsOwn(c.ID.Kind, c.bytes()))
	e.prepareLending(c)
	cut := uint64(c.Chunks.Max)<<32 | uint64(c.Chunks.Min)
	e.Calls.Enter(&c.ID, &c.header, pr.digest^cut*0xC2B2AE3D27D4EB4F, c.Begins)
	e.push(c)
}

// Wait returns when c, which Start began, is done, or with the fault of the
// Endpoint when it cannot be.
func (e *Engine) Wait(ctx context.Context, c *Call, w *Waiter) (transport.Fault, bool) {
	if !c.done {
		e.Messages.Waited = nil
		if err := w.wait(ctx, e, &c.done, w.polls(e, c)); err != nil {
			return e.failWait(err, c.ID.String(), w)
		}
		e.Messages.Waited = nil
	}
	return e.ep.Aborted()
}

// failWait makes err, which stopped a wait in a call or message, the fault of the Endpoint, unless there is one, and
// returns the one that counts.
func (e *Engine) failWait(err error, doing string, w *Waiter) (transport.Fault, bool) {
	return w.Fail(err, e.ep, e.rank, doing, e.blockers)
}

// Fail makes err, which ended a wait of rank self in the call doing, the fault of ep, unless there is one, and returns
// the one that counts. blockers returns the ranks that the rank waits for.
func (w *Waiter) Fail(err error, ep transport.Endpoint, self int, doing string,
	blockers func() []waits.Blocker) (transport.Fault, bool) {
	switch {
	case err == errAborted:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, waits.ErrStalled):
		ep.Abort(w.waitFault(err, self, doing, blockers()))
		w.Watch.GiveUp()
		return ep.Aborted()
	default:
		ep.Abort(transport.CallFault(err, self, doing))
	}
	w.Watch.Clear()
	return ep.Aborted()
}

// Idle reports whether no call and no message is under way, and this rank does not wait for the work of another
// goroutine.
func (e *Engine) Idle() bool {
	return e.first == nil && e.Messages.Idle()
}

// Settled reports whether no call or message that the caller has begun is under way: kept messages are not the
// caller's.
func (e *Engine) Settled() bool { return e.first == nil && e.Messages.Settled() }

// push puts c behind the calls under way.
func (e *Engine) push(c *Call) {
	before := e.last
	e.last = c
	if before == nil {
		e.first = c
		e.activate(c)
		return
	}
	before.next = c
	if c.program != e.active || before.program != e.active {
		return // its turn comes when all calls before it are done
	}
	for i := range e.active.tracks {
		if t := &e.active.tracks[i]; t.call == nil && t.seq == before.ID.Seq {
			t.begin(c)
		}
	}
}

// activate lets the tracks of the oldest call's program begin with it.
func (e *Engine) activate(c *Call) {
	e.active = c.program
	for i := range e.active.tracks {
		e.active.tracks[i].begin(c)
	}
}

// Poll moves the calls and messages under way as far as they can now: it lets every track take the steps that it can
// take, and ends the calls whose tracks have all run. An error is for transport.CallFault; a fault of the Endpoint that
// is there already is for Wait to find.
func (e *Engine) Poll() error {
	if e.any != nil {
		e.any.over = e.any.Reached()
	}
	if e.Messages.Active() {
		moved, err := e.Messages.Poll()
		if moved {
			e.steps++
		}
		if err != nil {
			return err
		}
	}
	for e.first != nil && !e.first.later() {
		tracks := e.active.tracks
		again := false
		for i := range tracks {
			if t := &tracks[i]; t.call != nil {
				more, err := t.advance()
				if err != nil {
					return err
				}
				again = again || more
			}
		}
		if again && e.Brief {
			return nil
		}
		if again {
			continue
		}
		if e.first.left > 0 {
			return nil
		}
		if !e.pop() {
			return e.broken
		}
	}
	return nil
}

// PollAside is Poll in a goroutine of its own, which takes no steps of a call with a function of the caller's. It
// reports whether any call or message moved, and whether some are left that can. It passes an error to abort.
func (e *Engine) PollAside(abort func(transport.Fault) transport.Fault) (moved, left bool) {
	steps := e.steps
	e.aside = true
	defer func() { e.aside = false }()
	if err := e.Poll(); err != nil {
		abort(transport.CallFault(err, e.rank, e.doing()))
		return true, false
	}
	return e.steps != steps, e.first != nil && !e.first.later() || e.Messages.Active()
}

// later reports whether c is not for PollAside, as it runs a function of the caller's.
func (c *Call) later() bool { return c.program.e.aside && (c.Func != nil || c.Then != nil) }

// pop ends the calls that are done, and reports whether another program has
// its turn now.
func (e *Engine) pop() bool {
	for c := e.first; c != nil && c.left == 0 && !c.later(); c = e.first {
		if c.finish(); !c.done {
			return false
		}
		e.first = c.next
		if e.first == nil {
			e.last = nil
		} else if e.first.program != c.program {
			e.activate(e.first)
			return true
		}
	}
	return false
}

// advance takes the steps of t until one has to wait or there are no more calls for it. After a large chunk it reports
// that there is more to do: the other tracks have their turn first, as other ranks may wait for their chunks.
func (t *track) advance() (more bool, err error) {
	for {
		for t.chunk < t.Chunks {
			if s := &t.steps[t.next]; len(t.call.OutAt) == 0 || t.turn(s) {
				var ok bool
				from := t.chunk * t.Grain
				if n := min(t.Grain, t.Bytes-from); t.wide {
					ok, err = t.takeWide(s, from, n)
				} else {
					ok, err = t.take(s, from, n)
				}
				if err != nil {
					return false, err
				}
				if !ok {
					return false, t.help()
				}
				t.e.steps++
			}
			if t.next++; t.next == len(t.steps) {
				t.next = 0
				t.chunk++
				if t.chunk < t.Chunks && t.Grain >= turn {
					return true, nil
				}
			}
		}
		c := t.call
		if c.lent && !t.returned() {
			return false, t.help() // another rank still reads the caller's memory
		}
		c.left--
		t.call = nil
		if c.next == nil || c.next.program != c.program {
			return false, nil
		}
		t.begin(c.next)
	}
}

// turn is the size of a chunk, in bytes, after which other tracks have their turn.
const turn = 16 << 10
