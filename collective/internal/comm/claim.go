package comm

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/transport"
)

// claim is the lock of a communicator's engine: it is held by one call at a time or, between calls and while a call
// waits for something else, for a moment by a function that moves messages.
type claim struct{ state atomic.Uint32 }

// States of a claim.
const (
	unclaimed uint32 = iota
	claimed          // by a call
	aside            // by a call, which does not use the engine now
	moving           // added to unclaimed or aside
)

// take claims the engine, or takes it back from aside. False: another call has it.
func (c *claim) take(from uint32) bool {
	for !c.state.CompareAndSwap(from, claimed) {
		if s := c.state.Load(); s != from && s != from+moving {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// without runs f, a part of the call that has the engine, which does not use it: messages may move meanwhile.
func (c *claim) without(f func()) {
	c.state.Store(aside)
	f()
	c.take(aside)
}

// Claimed reports whether a call is under way that has claimed c. Any goroutine may call it.
func (c *Comm) Claimed() bool {
	s := c.claim.state.Load()
	return s != unclaimed && s != unclaimed+moving
}

// between has f use the engine, unless a call does.
func (c *claim) between(f func()) {
	for _, s := range []uint32{unclaimed, aside} {
		if c.state.CompareAndSwap(s, s+moving) {
			f()
			c.state.Store(s)
			return
		}
	}
}

// move moves messages, unless a call does or c has failed. It reports whether any moved, and whether some are kept.
func (c *Comm) move() (moved, keeps bool) {
	keeps = true
	c.claim.between(func() {
		if _, failed := c.Endpoint.Aborted(); failed {
			keeps = false
			return
		}
		var err error
		if moved, err = c.Engine.Messages.Move(); err != nil {
			c.Links.Abort(transport.CallFault(err, c.Rank, "messages under way"))
		}
		keeps = c.Engine.Messages.Keeps() && err == nil
		c.moves = keeps && c.moves
	})
	return moved, keeps
}

// moveKept sends the messages that are kept while this rank is in no call.
func (c *Comm) moveKept() {
	idle := backoff.Wait{Max: time.Millisecond}
	for !c.over() {
		moved, keeps := c.move()
		if !keeps {
			return
		}
		if moved {
			idle.Moved()
		}
		idle.Pause()
	}
}
