package comm

import (
	"context"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/transport"
)

// Request is a call under way, that of a communicator with this number. The zero value is done.
type Request struct {
	c   *Comm
	seq uint64
}

// InFlight is how many calls may be under way on a rank; one more waits for the
// first of them.
const InFlight = device.MaxCalls

// Wait returns when the call is done on this rank. A ctx that ends is a failure
// of the communicator on all ranks, as with every call.
func (r Request) Wait(ctx context.Context) error {
	if r.c == nil {
		return nil
	}
	if done, err := r.c.resume(r.seq); done || err != nil {
		return err
	}
	defer r.c.End()
	return r.c.Wait(ctx, r.seq, &r.c.Waiter)
}

// Test moves the calls under way as far as they can, and reports whether this
// one is done. It does not wait.
func (r Request) Test() (bool, error) {
	if r.c == nil {
		return true, nil
	}
	if done, err := r.c.resume(r.seq); done || err != nil {
		return done, err
	}
	defer r.c.End()
	call := r.c.callOf(r.seq)
	if err := r.c.Engine.Poll(); err != nil {
		return false, r.c.stopped(err, call.Header)
	}
	if fault, failed := r.c.Endpoint.Aborted(); failed && !call.Done() {
		return false, r.c.fail(fault, call.Header)
	}
	return call.Done(), nil
}

// callOf returns the call with a number, nil when it was done so long ago that
// its place has been taken by another.
func (c *Comm) callOf(seq uint64) *engine.Call {
	call := &c.Calls[seq%InFlight]
	if call.Header.Seq != seq {
		return nil
	}
	return call
}

// resume claims the communicator for a call under way, unless it is done.
func (c *Comm) resume(seq uint64) (done bool, err error) {
	claimed := c.Busy.CompareAndSwap(false, true)
	if !claimed && !c.over() {
		return false, c.busyError("Wait")
	}
	call := c.callOf(seq)
	switch done = call == nil || call.Done(); {
	case claimed && done:
		c.End()
		return true, nil
	case done:
		return true, nil
	case !claimed:
		return false, c.busyError("Wait")
	}
	if c.err != nil {
		c.End()
		return false, c.rankError(c.err.Rank, engine.Describe(call.Header), c.err.Err, c.undefined(seq))
	}
	c.tally.enter(rowOf(call.Header.Kind, call.Header.Op), int(call.Header.Count)*call.DType.Size())
	return false, nil
}

// Wait waits for a call under way, as w says. The communicator is claimed.
func (c *Comm) Wait(ctx context.Context, seq uint64, w *engine.Waiter) error {
	call := c.callOf(seq)
	if fault, failed := c.Engine.Wait(ctx, call, w); failed {
		return c.fail(fault, call.Header)
	}
	return nil
}

// Start begins a call.
func (c *Comm) Start(a *Args) (Request, error) {
	if err := c.Begin(a); err != nil {
		return Request{}, err
	}
	defer c.End()
	if err := c.Enter(context.Background(), a); err != nil {
		return Request{}, err
	}
	return c.Latest(), nil
}

// Latest is the call that has begun last.
func (c *Comm) Latest() Request { return Request{c, c.Seq} }

// Run makes a call and waits for it.
func (c *Comm) Run(ctx context.Context, a *Args) error {
	if err := c.Begin(a); err != nil {
		return err
	}
	defer c.End()
	return c.Go(ctx, a, &c.Waiter)
}

// Go is Run on a communicator that is claimed. It waits as w says.
func (c *Comm) Go(ctx context.Context, a *Args, w *engine.Waiter) error {
	if err := ctx.Err(); err != nil {
		return c.Cancel(ctx, a)
	}
	if err := c.Enter(ctx, a); err != nil {
		return err
	}
	return c.Wait(ctx, c.Seq, w)
}

// Cancel ends the communicator before a call whose context has ended already:
// the other ranks wait for it.
func (c *Comm) Cancel(ctx context.Context, a *Args) error {
	c.Seq++
	h := a.header(c.Seq)
	return c.fail(transport.Faultf(transport.FaultOf(ctx.Err()), c.Rank, "rank %d gave up before %s: %v", c.Rank,
		engine.Describe(h), ctx.Err()), h)
}

func (a *Args) header(seq uint64) transport.Header {
	as := a.as
	switch {
	case as != 0:
	case a.Scale:
		as = engine.PreMulSum
	default:
		as = uint8(a.Op)
	}
	of := a.of
	if of == 0 {
		of = a.DType
	}
	return transport.Header{Seq: seq, Count: uint64(a.Count), Kind: uint8(a.Kind) | a.flags, Op: as,
		DType: uint8(of), Root: engine.Numbered(a.Root, a.number)}
}

// Enter begins the next call of the communicator, which is claimed.
func (c *Comm) Enter(ctx context.Context, a *Args) error {
	bytes := c.bytesOf(a)
	sort := rowOf(uint8(a.Kind), a.as)
	first := c.tally.enter(sort, bytes)
	if err := c.MakeRoom(ctx); err != nil {
		return err
	}
	c.Seq++
	call := &c.Calls[c.Seq%InFlight]
	call.Header, call.In, call.Out, call.Begins = a.header(c.Seq), a.In, a.Out, a.Begins
	call.DType, call.Op, call.Divide, call.Scale, call.Factor = a.DType, a.Op, a.Divide, a.Scale, a.Factor
	call.Pieces = call.Pieces[:0] // their memory stays for a later call
	if a.Pieces != nil {
		call.Pieces = a.Pieces
	}
	pr, served, err := c.Plans.Program(a.Kind, a.Root, bytes)
	if err != nil { // the others wait for this rank
		return c.fail(transport.Fault{Kind: transport.FaultLink, Rank: c.Rank, Text: err.Error()}, call.Header)
	}
	call.Chunks, served.Ran = served.Chunks, true
	if err := pr.Start(call); err != nil {
		return c.stopped(err, call.Header)
	}
	if a.as != 0 || a.varies() && a.Kind == plan.AllToAll {
		bytes = 0 // they are not the caller's
	}
	if first { // while what was sent is on its way
		c.tally.count(sort, bytes)
	}
	return nil
}

// bytesOf returns how long the message of a call is, that of all parts where it has parts.
func (c *Comm) bytesOf(a *Args) int {
	if a.Kind.HasParts() && a.Begins == nil {
		return a.Count * a.DType.Size() * c.Size
	}
	return a.Count * a.DType.Size()
}

// MakeRoom waits for the call whose place the next one takes.
func (c *Comm) MakeRoom(ctx context.Context) error {
	old := &c.Calls[(c.Seq+1)%InFlight]
	if old.Header.Seq == 0 || old.Done() {
		return nil
	}
	return c.Wait(ctx, old.Header.Seq, &c.Waiter)
}
