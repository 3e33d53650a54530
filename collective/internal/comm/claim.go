package comm

import (
	"runtime"
	"sync/atomic"

	"github.com/treerun/treerun/internal/backoff"
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
	for tries := 0; !c.state.CompareAndSwap(from, claimed); tries++ {
		if s := c.state.Load(); s != from && s != from+moving {
			return false
		}
		if runtime.Gosched(); tries > 10 {
			backoff.Nap(asideNap) // the goroutine that moves messages may need this core
		}
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

// between has f use the engine, unless a call does. It reports whether f ran.
func (c *claim) between(f func()) bool {
	s := c.state.Load()
	if s != unclaimed && s != aside || !c.state.CompareAndSwap(s, s+moving) {
		return false
	}
	f()
	c.state.Store(s)
	return true
}
