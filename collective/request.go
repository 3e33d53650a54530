package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/comm"
	calls "github.com/treerun/treerun/internal/call"
)

// Request is a call in flight. The calls of a communicator are done in the order in which they began; their slices must
// not be touched until then. Up to 256 may be in flight: one more waits for the first. A call makes progress while any
// call, Wait or Test of its communicator runs on this rank. In between one of 512 KiB or more may make progress in a
// goroutine, where the program has left its core, as when it waits for a GPU; while the program computes it makes none.
// A function of the caller's runs in calls only.
//
// Wait or Test may be called again after the end, and need not be called for every Request: when one is done, so are
// all earlier ones in this order. The zero value is done.
//
// After an error of any of them the contents of send and recv of all calls in flight are undefined.
type Request struct{ request comm.Request }

// Wait returns when the call is done on this rank. If ctx ends, the communicator fails on all ranks, as with every
// call.
func (r Request) Wait(ctx context.Context) error { return r.request.Wait(ctx) }

// Test makes progress on calls in flight without waiting, and reports whether this one is done.
func (r Request) Test() (bool, error) { return r.request.Test() }

// begun is start for exported functions.
func (c *Comm) begun(a *comm.Args) (Request, error) {
	if a.Form&calls.Prepared == 0 {
		a.As(calls.Started)
	}
	r, err := c.inner().Start(a)
	return Request{r}, err
}
