package collective

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/transport"
)

// request is a call under way, that of a communicator with this number. The zero value is done.
type request struct {
	c   *inside
	seq uint64
}

// inFlight is how many calls may be under way on a rank; one more waits for the
// first of them.
const inFlight = 256

// Wait returns when the call is done on this rank. A ctx that ends is a failure
// of the communicator on all ranks, as with every call.
func (r request) Wait(ctx context.Context) error {
	if r.c == nil {
		return nil
	}
	if done, err := r.c.resume(r.seq); done || err != nil {
		return err
	}
	defer r.c.end()
	return r.c.wait(ctx, r.seq)
}

// Test moves the calls under way as far as they can, and reports whether this
// one is done. It does not wait.
func (r request) Test() (bool, error) {
	if r.c == nil {
		return true, nil
	}
	if done, err := r.c.resume(r.seq); done || err != nil {
		return done, err
	}
	defer r.c.end()
	call := r.c.callOf(r.seq)
	if err := r.c.engine.Poll(); err != nil {
		fault, _ := r.c.engine.Fail(err, call)
		return false, r.c.fail(context.Background(), fault, call.Header)
	}
	if fault, failed := r.c.ep.Aborted(); failed && !call.Done() {
		return false, r.c.fail(context.Background(), fault, call.Header)
	}
	return call.Done(), nil
}

// callOf returns the call with a number, nil when it was done so long ago that
// its place has been taken by another.
func (c *inside) callOf(seq uint64) *engine.Call {
	call := &c.calls[seq%inFlight]
	if call.Header.Seq != seq {
		return nil
	}
	return call
}

// resume claims the communicator for a call under way, unless it is done.
func (c *inside) resume(seq uint64) (done bool, err error) {
	if !c.busy.CompareAndSwap(false, true) {
		return false, c.busyError("Wait")
	}
	call := c.callOf(seq)
	if call == nil || call.Done() {
		c.end()
		return true, nil
	}
	if c.err != nil {
		c.end()
		return false, &RankError{Rank: c.err.Rank, Op: engine.Describe(call.Header), Err: c.err.Err, Hint: c.undefined(seq)}
	}
	return false, nil
}

// wait waits for a call under way. The communicator is claimed.
func (c *inside) wait(ctx context.Context, seq uint64) error {
	return c.waitAs(ctx, seq, &c.waiter)
}

// waitAs is wait in another way.
func (c *inside) waitAs(ctx context.Context, seq uint64, w *engine.Waiter) error {
	call := c.callOf(seq)
	h := call.Header
	if fault, failed := c.engine.Wait(ctx, call, w); failed {
		return c.fail(ctx, fault, h)
	}
	return nil
}

// start begins a call.
func (c *inside) start(a *args) (request, error) {
	if a.err != nil {
		return request{}, a.err
	}
	if err := c.begin(a.kind); err != nil {
		return request{}, err
	}
	defer c.end()
	if err := c.enter(context.Background(), a); err != nil {
		return request{}, err
	}
	return c.latest(), nil
}

// latest is the call that has begun last.
func (c *inside) latest() request { return request{c, c.seq} }

// run makes a call and waits for it.
func (c *inside) run(ctx context.Context, a *args) error {
	if a.err != nil {
		return a.err
	}
	if err := c.begin(a.kind); err != nil {
		return err
	}
	defer c.end()
	if err := ctx.Err(); err != nil {
		return c.cancel(ctx, a)
	}
	if err := c.enter(ctx, a); err != nil {
		return err
	}
	return c.wait(ctx, c.seq)
}

// cancel ends the communicator before a call whose context has ended already:
// the other ranks wait for it.
func (c *inside) cancel(ctx context.Context, a *args) error {
	c.seq++
	h := c.header(a)
	c.ep.Abort(transport.Fault{Rank: c.rank, Text: fmt.Sprintf("%srank %d gave up before %s: %v",
		engine.FaultCanceled, c.rank, engine.Describe(h), ctx.Err())})
	fault, _ := c.ep.Aborted()
	return c.fail(ctx, fault, h)
}

func (c *inside) header(a *args) transport.Header {
	h := transport.Header{Seq: c.seq, Count: uint64(a.count), Kind: uint8(a.kind), Op: uint8(a.Op), DType: uint8(a.DType),
		Root: int32(a.root)}
	switch {
	case a.kind == plan.Barrier:
		h.Op, h.DType = 0, 0
	case a.Scale:
		h.Op = engine.PreMulSum
	case a.aside:
		h.Op = engine.Aside
	case a.splits:
		h.Op = engine.Splits
	}
	if a.device {
		h.Kind |= engine.OnDevice
	}
	return h
}

// enter begins the next call of the communicator, which is claimed.
func (c *inside) enter(ctx context.Context, a *args) error {
	if err := c.makeRoom(ctx); err != nil {
		return err
	}
	c.seq++
	call := &c.calls[c.seq%inFlight]
	if a.pieces == nil {
		a.pieces = call.Pieces[:0] // their memory stays for a later call
	}
	*call = engine.Call{Header: c.header(a), In: a.in, Out: a.out, Pieces: a.pieces, Work: a.Work}
	bytes := a.count * a.DType.Size()
	if a.kind.HasParts() {
		bytes *= c.size
	}
	pr, served, err := c.plans.program(a.kind, a.root, bytes)
	if err != nil { // the others wait for this rank
		c.ep.Abort(transport.Fault{Rank: c.rank, Text: engine.FaultLink + err.Error()})
		fault, _ := c.ep.Aborted()
		return c.fail(ctx, fault, call.Header)
	}
	call.Chunks, served.Ran = served.Chunks, true
	if err := pr.Start(call); err != nil {
		fault, _ := c.engine.Fail(err, call)
		return c.fail(ctx, fault, call.Header)
	}
	return nil
}

// makeRoom waits for the call whose place the next one takes.
func (c *inside) makeRoom(ctx context.Context) error {
	old := &c.calls[(c.seq+1)%inFlight]
	if old.Header.Seq == 0 || old.Done() {
		return nil
	}
	return c.wait(ctx, old.Header.Seq)
}
