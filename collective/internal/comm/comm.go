package comm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Comm is a communicator: the ranks of a World, their links, and the plans for
// them. One goroutine at a time may make a call on it; a second one gets
// ErrBusy.
type Comm struct {
	Rank, Size int
	Name       string // the name in reports and errors
	Plans      *setup.Plans
	Endpoint   transport.Endpoint
	Engine     *engine.Engine
	Waiter     engine.Waiter
	Setup      *setup.Setup // what the ranks have agreed on
	none       bool         // whether this Comm stands for a nil one

	claim    claim
	moves    atomic.Bool // whether moveAside runs
	useless  atomic.Bool // whether the last moveAside was of no use
	larges   uint32      // the number of large calls so far
	left     uint64      // claims when moveAside was started
	claims   uint64      // how often a call has claimed c so far
	large    bool        // whether some of the calls and messages under way are as large as asideFrom
	Seq      uint64      // the number of the latest call
	Tally    tally
	hide     func()                                        // gives up its place in the memory that other processes see
	calls    [InFlight / callBlock]*[callBlock]engine.Call // see CallAt
	reused   uint64                                        // calls that have the place of the one before them
	Messages Messages
	Looks    Looks
	failure  failure
	splits   int            // calls of Split so far
	dups     int            // calls of StartDup so far
	started  []*StartedDup  // those whose Wait has not returned
	subs     map[string]int // calls of Sub, by the ranks

	preparing sync.Mutex      // guards prepared
	prepared  map[call.ID]int // the number of prepared calls, by their IDs with the first Number

	inside     *Inside // what Of returns, made at its first call
	insideOnce sync.Once
	leaving    []func() error // the functions that OnClose was given

	Devices Devices
	Links   Links

	once    sync.Once   // Close closes the communicator once
	closing atomic.Bool // whether Close has begun: then no call begins any more
	watch   sync.WaitGroup
	closed  chan struct{}
	ctx     context.Context // ends with the first fault, and with Close
	cancel  func()          // ends ctx
}

// Close leaves the communicator and gives its memory back. The second and later calls return when the first has ended,
// with nil. It also reports its error to the launcher: callers may ignore it.
func (c *Comm) Close() error {
	var err error
	c.once.Do(func() {
		if err = c.close(); err != nil {
			c.Waiter.Watch.Failed(err)
		}
	})
	return err
}

// over reports whether c has been closed: no messages move any more.
func (c *Comm) over() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func (c *Comm) close() error {
	c.closing.Store(true)
	if text := c.UnusedPlan(); text != "" && c.Rank == 0 && c.failure.err == nil {
		c.Setup.Config.Note(fmt.Sprintf("treerun: communicator %s: %s\n", c.Name, text))
	}
	for !c.claim.take(unclaimed) {
		c.Links.Abort(transport.Faultf(transport.FaultClosed, c.Rank,
			"rank %d closed its communicator during its own call", c.Rank))
		time.Sleep(time.Millisecond)
	}
	// The claim stays: no call begins any more.
	select {
	case <-c.Setup.World.Failed(): // the World knows the cause best
		c.Endpoint.Abort(setup.LostRank(c.Setup.World))
	default:
	}
	if settled := c.Engine.Settled(); !settled || len(c.started) > 0 {
		under := startDup
		if p := c.Messages.under.UnderWay(); p != nil {
			under = p.String()
		} else if !settled {
			under = c.CallAt(c.Seq).Text()
		}
		c.Endpoint.Abort(transport.Faultf(transport.FaultClosed, c.Rank,
			"rank %d closed its communicator with %s under way; Wait for it before Close", c.Rank, under))
	}
	c.Engine.Flush(context.Background(), &c.Waiter)
	c.Devices.Session.Finish()
	fault, failed := c.Engine.Calls.Settle(c.Setup.Config.Settle)
	left := c.unreceived(failed)
	gone := c.Devices.Session.Close()
	for _, f := range c.leaving {
		gone = errors.Join(gone, f())
	}
	c.cancel()
	close(c.closed)
	c.watch.Wait()
	for _, d := range c.started {
		d.mu.Lock()
		d.drop(c.busyError(startDup))
		d.mu.Unlock()
	}
	c.Waiter.Watch.Close()
	c.Tally.detach()
	c.hide()
	if err := errors.Join(gone, c.Endpoint.Close()); err != nil && !failed {
		return fmt.Errorf("collective: rank %d: close: %w", c.Rank, err)
	}
	c.Setup.Retire()
	if failed && c.failure.err == nil && (fault.Kind != transport.FaultAborted || fault.Rank != c.Rank) {
		c.failure.err = rankError(c, fault.Rank, "Close", setup.ErrorOf(fault), "")
		return c.failure.err
	}
	return left
}

// unreceived is the error of a Close before which a message has come that this rank has not received.
func (c *Comm) unreceived(failed bool) error {
	if failed || c.failure.err != nil {
		return nil
	}
	from, to, id, found := c.Engine.Messages.Unreceived()
	if !found {
		return nil
	}
	f := transport.Faultf(transport.FaultMismatch, -1, "rank %d has sent %d %s with tag %d, which rank %d "+
		"has not received", from, id.Count, id.DType, id.Tag, to)
	return rankError(c, -1, "Close", setup.ErrorOf(f), "")
}

// Begin claims the communicator for a call, unless that cannot be made.
func (c *Comm) Begin(a *Args) error {
	switch { // the name is looked up only when there is an error to report
	case a.Err != nil:
		return a.Err
	case !c.claim.take(unclaimed):
		return c.busyError(a.Form.Name(&a.ID))
	case c.failure.err != nil:
		return c.failedBefore(a.Form.Name(&a.ID))
	}
	return nil
}

// Claim claims the communicator for a call with a name.
func (c *Comm) Claim(call string) error {
	if !c.claim.take(unclaimed) {
		return c.busyError(call)
	}
	if c.failure.err != nil {
		return c.failedBefore(call)
	}
	return nil
}

// failedBefore ends a claim of a communicator that has failed, and returns why.
func (c *Comm) failedBefore(call string) error {
	c.End()
	return c.failure.in(call, "")
}

// End ends the use that Claim or Begin has begun.
func (c *Comm) End() {
	if waited := c.Waiter.Watch.Total(); c.Tally.weight > 0 || waited != c.Tally.waited {
		c.Tally.leave(waited)
	}
	if c.Looks.timed > 0 {
		c.Looks.end(time.Since(epoch) - c.Tally.began)
	}
	c.Tally.calls.Load().Now = 0
	c.claims++
	if c.large && c.Engine.Settled() {
		c.large = false
	}
	switch keeps := c.Engine.Messages.Keeps(); {
	case !c.large && !keeps || c.moves.Load() || c.failure.err != nil:
	case !keeps && c.useless.Load() && c.larges%asideTry != 0:
	case c.moves.CompareAndSwap(false, true):
		c.left = c.claims
		c.watch.Go(c.moveAside)
	}
	c.claim.state.Store(unclaimed)
}

// busyError returns the reason why the communicator cannot be claimed.
func (c *Comm) busyError(call string) error {
	if c.none {
		return c.ArgumentError(call, "")
	}
	err := setup.ErrBusy
	if c.closing.Load() {
		err = setup.ErrClosed
	}
	return fmt.Errorf("collective: %s on %s: %w", call, c.self(), err)
}

// Abort ends the communicator on all ranks.
func (c *Comm) Abort(cause error) {
	f := transport.Faultf(transport.FaultAborted, c.Rank, "rank %d aborted the communicator", c.Rank)
	if cause != nil {
		f.Text += ": " + strings.ReplaceAll(cause.Error(), "\n", "; ")
	}
	c.Links.Abort(f)
}

// OnClose has f called when c is closed, after all calls.
func (c *Comm) OnClose(f func() error) { c.leaving = append(c.leaving, f) }

// UnusedPlan names a plan of WithPlan that no call has run yet; "" is none.
func (c *Comm) UnusedPlan() string {
	g := c.Setup.Config.Planning.Given
	if g == nil || g.Ran || c.Devices.Session != nil && c.Devices.Session.Given.Ran {
		return ""
	}
	p := g.Plan
	text := fmt.Sprintf("the given plan, of %v", p.Kind)
	if p.Kind.HasRoot() {
		text += fmt.Sprintf(" with root %d", p.Root)
	}
	return text + ", has served no call"
}
