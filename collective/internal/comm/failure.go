package comm

import (
	"context"
	"errors"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// failure is how a communicator has failed: for the first cause, on all ranks.
type failure struct {
	c   *Comm
	err *setup.RankError // nil unless the communicator has failed
}

// in returns the failure as a call meets it.
func (e *failure) in(op, hint string) *setup.RankError {
	return rankError(e.c, e.err.Rank, op, e.err.Err, hint)
}

// again returns the failure, which this rank met in a call: it is that call's whichever part of it met it.
func (e *failure) again(during string) error {
	e.err = e.in(during, e.err.Hint)
	return e.err
}

// during makes f the fault of all links, and the first one the failure, which this rank met in a call.
func (e *failure) during(f transport.Fault, during, hint string) error {
	c := e.c
	c.Engine.CancelReceives()
	f = c.Links.Abort(f)
	e.err = rankError(c, f.Rank, during, setup.ErrorOf(f), hint)
	if f.Kind == transport.FaultLost {
		c.Waiter.Watch.PeerLost()
	}
	return e.err
}

// duringCall is during, in a call that has begun.
func (e *failure) duringCall(f transport.Fault, begun *engine.Call) error {
	return e.during(f, begun.Text(), undefinedIn(begun))
}

// gaveUp ends the communicator as ctx has ended before a call.
func (e *failure) gaveUp(ctx context.Context, call, of string) error {
	return e.during(transport.Faultf(transport.FaultOf(ctx.Err()), e.c.Rank, "rank %d gave up before %s%s: %v", e.c.Rank,
		call, of, ctx.Err()), call, "")
}

// causedBy returns the failure, which wraps cause, an error of this rank's device or nil, where it is that of a device
// of this rank.
func (e *failure) causedBy(cause error) error {
	if cause != nil && e.err.Rank == e.c.Rank && errors.Is(e.err, setup.ErrDevice) {
		e.err.Err = setup.DeviceError(e.err.Err.Error(), cause)
	}
	return e.err
}

// rankError is a failure of c.
func rankError(c *Comm, rank int, op string, err error, hint string) *setup.RankError {
	e := &setup.RankError{Rank: rank, Comm: c.Name, Op: op, Err: err, Hint: hint}
	if c.Name == setup.FirstName {
		e.Comm = ""
	}
	return setup.InEpoch(c.Setup.World, e)
}

// Fault makes a fault that of all links of c, and returns the first: when a rank has
// aborted c while others opened links, they see those links end.
func (c *Comm) Fault(f transport.Fault, during string) error {
	if f = c.Links.Abort(f); c.failure.err != nil {
		return c.failure.again(during)
	}
	hint := undefinedAnyhow
	if f.Kind == transport.FaultMismatch {
		hint = "" // detected before anything moved
	}
	return c.failure.during(f, during, hint)
}

// undefinedRecv is undefinedIn for calls that are not in place, or for which that is not recorded.
const undefinedRecv = "contents of recv are undefined"

// undefinedAnyhow is undefinedIn for calls for which it is not recorded whether they were in place.
const undefinedAnyhow = "contents of recv, and of send in place, are undefined"

// undefinedIn names the slices of a call whose contents are undefined once it has failed, none for one that is done.
func undefinedIn(begun *engine.Call) string {
	if begun == nil || begun.Done() {
		return ""
	}
	in, out := begun.In, begun.Out
	if len(begun.Pieces) > 0 {
		in, out = begun.Pieces[0].In, begun.Pieces[0].Out
	}
	switch k := begun.ID.Kind; {
	case len(out) == 0, k >= call.Exchange:
		return "" // no slices of the caller's
	case kernel.OverlapOf(in, out) != kernel.Apart:
		return "contents of send and recv are undefined"
	}
	return undefinedRecv
}
