package comm

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/transport"
)

// Request is a call, or a message, under way. The zero value is done. It has no more than the four words that Go passes
// on in registers.
type Request struct {
	c      *Comm
	number uint64    // of the call or message
	slot   *p2p.Slot // of the message, nil where this is a call

	Got *p2p.Got // result of a receive, once it is done; nil for other calls
}

// InFlight is the largest number of calls that may be under way on a rank; one more waits for the first of them.
const InFlight = devices.MaxCalls

// callBlock is the number of calls whose memory is allocated at once: many communicators make few calls.
const callBlock = 16

// CallAt returns the place of the call with a number: that of the call InFlight before it or, where that was done, of
// the one before it. So calls one after the other have one place, which stays in the core's cache.
func (c *Comm) CallAt(seq uint64) *engine.Call {
	i := (seq - c.reused) % InFlight
	block := &c.calls[i/callBlock]
	if *block == nil {
		*block = new([callBlock]engine.Call)
	}
	return &(*block)[i%callBlock]
}

func (r Request) isMessage() bool { return r.slot != nil }

func (r Request) message() p2p.Ref { return p2p.Ref{Slot: r.slot, Number: r.number} }

// done reports whether r is done.
func (r Request) done() bool {
	if r.isMessage() {
		return r.message().Done()
	}
	begun := r.c.callOf(r.number)
	return begun == nil || begun.Done()
}

// doing names r, which is not done, and the slices whose contents are undefined once it has failed.
func (r Request) doing() (what, undefined string) {
	if r.isMessage() {
		p := r.message().Message()
		return p.String(), undefinedOf(p)
	}
	return r.c.callOf(r.number).Text(), undefinedIn(r.c.callOf(r.number))
}

// Wait returns when r is done on this rank. A ctx that ends is a failure
// of the communicator on all ranks, as with every call.
func (r Request) Wait(ctx context.Context) error {
	if r.c == nil {
		return nil
	}
	if done, err := r.resume(); done || err != nil {
		return err
	}
	defer r.c.End()
	if r.isMessage() {
		defer r.counted()
		return r.c.Messages.wait(ctx, r.message().Message())
	}
	return r.c.Wait(ctx, r.number, &r.c.Waiter)
}

// Test moves the calls and messages under way as far as it can, and reports whether r is done. It does not wait.
func (r Request) Test() (bool, error) {
	if r.c == nil {
		return true, nil
	}
	if done, err := r.resume(); done || err != nil {
		return done, err
	}
	defer r.c.End()
	defer r.counted()
	err := r.c.Engine.Poll()
	fault, failed := r.c.Endpoint.Aborted()
	if err == nil && !failed && r.isMessage() && !r.done() && !r.c.Engine.Messages.Keep(r.message().Message()) {
		_, err = r.c.Engine.Messages.Move()
	}
	if err == nil && (!failed || r.done()) {
		return r.done(), nil
	}
	what, undefined := r.doing()
	if err != nil {
		fault = transport.CallFault(err, r.c.Rank, what)
	}
	return false, r.c.failure.during(fault, what, undefined)
}

// callOf returns the call with a number, nil when it was done so long ago that
// its place has been taken by another.
func (c *Comm) callOf(seq uint64) *engine.Call {
	begun := c.CallAt(seq)
	if begun.ID.Seq != seq {
		return nil
	}
	return begun
}

// counted corrects the counted bytes of a receive, once it is done: the message may have been shorter.
func (r Request) counted() {
	if g := r.Got; g != nil && r.done() {
		status.Add(&r.c.Tally.calls.Load().Rows[status.RowRecv].Bytes, g.Uncounted)
		g.Uncounted = 0
	}
}

// resume claims the communicator for r, unless that is done.
func (r Request) resume() (done bool, err error) {
	c := r.c
	claimed := c.claim.take(unclaimed)
	if !claimed && !c.over() {
		return false, c.busyError("Wait")
	}
	switch done = r.done(); {
	case claimed && done:
		r.counted()
		c.End()
		return true, nil
	case done:
		return true, nil
	case !claimed:
		return false, c.busyError("Wait")
	}
	if c.failure.err != nil {
		c.End()
		what, undefined := r.doing()
		return false, c.failure.in(what, undefined)
	}
	if r.isMessage() {
		c.Tally.enter(rowOfMessage(!r.message().Message().Receives()), 0)
	} else {
		begun := c.callOf(r.number)
		c.Tally.enter(status.RowOf(&begun.ID), int(begun.ID.Count)*begun.Size())
		if c.Tally.rec != nil {
			c.Tally.rec.now.seq = r.number
		}
	}
	return false, nil
}

// Wait waits for a call under way, with w. The communicator is claimed.
func (c *Comm) Wait(ctx context.Context, seq uint64, w *engine.Waiter) error {
	begun := c.callOf(seq)
	if fault, failed := c.Engine.Wait(ctx, begun, w); failed {
		return c.failure.duringCall(fault, begun)
	}
	return nil
}

// Start begins a call.
func (c *Comm) Start(a *Args) (Request, error) {
	if err := c.Begin(a); err != nil {
		return Request{}, err
	}
	defer c.End()
	if err := c.Looks.Before(context.Background(), a, false); err != nil {
		return Request{}, err
	}
	return StartClaimed(c, a)
}

// StartClaimed is Start on a communicator that is claimed, after the look before the call.
func StartClaimed(c *Comm, a *Args) (Request, error) {
	if a.bytes(c.Size) >= asideFrom && !a.ID.Varied { // not known to all ranks, if it varies
		c.large = true
		c.larges++
		c.Engine.Brief = !c.useless.Load() || c.larges%asideTry == 0 // else all ranks could do all of it here
	}
	err := c.Enter(context.Background(), a)
	c.Engine.Brief = false
	if c.Tally.rec != nil {
		c.Tally.rec.now.begun = true
	}
	if err != nil {
		return Request{}, err
	}
	return Request{c: c, number: c.Seq}, nil
}

// Run makes a call and waits for it.
func (c *Comm) Run(ctx context.Context, a *Args) error {
	if err := c.Begin(a); err != nil {
		return err
	}
	defer c.End()
	if err := c.Looks.Before(ctx, a, true); err != nil {
		return err
	}
	return c.Go(ctx, a, &c.Waiter)
}

// Go is Run on a communicator that is claimed. It waits with w.
func (c *Comm) Go(ctx context.Context, a *Args, w *engine.Waiter) error {
	if err := c.Enter(ctx, a); err != nil {
		return err
	}
	return c.Wait(ctx, c.Seq, w)
}

// Cancel ends the communicator before a call whose context has ended already:
// the other ranks wait for it.
func (c *Comm) Cancel(ctx context.Context, a *Args) error {
	c.Seq++
	id := a.ID
	id.Seq = c.Seq
	return c.failure.gaveUp(ctx, a.Form.Text(id), "")
}

// Enter begins the next call of the communicator, which is claimed, unless ctx has ended.
func (c *Comm) Enter(ctx context.Context, a *Args) error {
	if ctx.Err() != nil {
		return c.Cancel(ctx, a)
	}
	bytes := a.bytes(c.Size)
	sort := status.RowOf(&a.ID)
	first := c.Tally.enter(sort, bytes)
	if err := c.MakeRoom(ctx); err != nil {
		return err
	}
	c.Seq++
	next := c.CallAt(c.Seq)
	pieces := next.Pieces[:0] // their memory stays for a later call
	next.Args = a.Args
	next.ID.Seq = c.Seq
	if a.Pieces == nil {
		next.Pieces = pieces
	}
	a.layOut(c, next)
	planned := bytes
	if a.ID.CountsByPair() {
		planned = pairedBytes // ranks have each their own length
	}
	pr, served, err := c.Setup.Program(a.Kind, int(a.ID.Root), planned, a.Func != nil)
	if err == nil && a.receives != nil && !pr.Straight() {
		err = fmt.Errorf("the given plan passes parts on, which those of an %s do not allow", a.ID.Name())
	}
	if err != nil { // the others wait for this rank
		return c.failure.duringCall(transport.Fault{Kind: transport.FaultLink, Rank: c.Rank, Text: err.Error()}, next)
	}
	next.Chunks, served.Ran = served.Chunks, true
	if first && c.Tally.rec != nil {
		c.Tally.rec.planned(c.Seq, served, a.Kind, int(a.ID.Root), planned)
	}
	pr.Start(next)
	if err := c.Engine.Poll(); err != nil {
		return c.failure.duringCall(transport.CallFault(err, c.Rank, next.Text()), next)
	}
	if a.ID.Kind >= call.Exchange || a.Then != nil {
		bytes = a.own // the others are not the caller's
	}
	if first { // while the sent messages are on their way
		c.Tally.count(sort, bytes)
	}
	return nil
}

// pairedBytes is the length for which a call is planned when only the ranks of a part have its length. Every plan of
// such a call moves each part straight from one rank to another.
const pairedBytes = 1 << 20

// MakeRoom waits for the call whose place the next one takes. It changes nothing if it is called again before Enter.
func (c *Comm) MakeRoom(ctx context.Context) error {
	reusePlace(c)
	old := c.CallAt(c.Seq + 1)
	if old.ID.Seq == 0 || old.Done() {
		return nil
	}
	if err := c.Wait(ctx, old.ID.Seq, &c.Waiter); err != nil {
		return err
	}
	reusePlace(c) // the latest call may have been done in that wait, too
	return nil
}

// Room moves the calls under way on c for a call with a name, and reports whether that can begin, after a look, without
// a wait for one of them.
func Room(c *Comm, call string) (bool, error) {
	if err := c.Claim(call); err != nil {
		return false, err
	}
	defer c.End()
	err := c.Engine.Poll()
	fault, failed := c.Endpoint.Aborted()
	if err != nil {
		fault, failed = transport.CallFault(err, c.Rank, call), true
	}
	if failed {
		return false, c.failure.during(fault, call, undefinedAnyhow)
	}
	reusePlace(c)
	for n := uint64(1); n <= 2; n++ {
		if old := c.CallAt(c.Seq + n); old.ID.Seq != 0 && !old.Done() {
			return false, nil
		}
	}
	return true, nil
}

// reusePlace gives the next call of c the place of the latest one, if that is done, and so all before it are.
func reusePlace(c *Comm) {
	if latest := c.CallAt(c.Seq); latest.ID.Seq == c.Seq && latest.Done() {
		c.reused++
	}
}
