package collective

import (
	"context"
	"slices"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// AllReduceCoalesced is one AllReduce of many slices, treated as one message: recv[i] gets the combination of send[i]
// of all ranks. Small slices share the fixed cost of a call, and are not copied together first. send[i] and recv[i]
// have the same length and may be the same slice; apart from that no slice of recv overlaps another slice. The total
// number of elements is the same on all ranks; the boundaries between slices may differ. The order of additions depends
// on the total. After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReduceCoalesced[T Element](ctx context.Context, c *Comm, send, recv [][]T, op Op) error {
	return runPieces(ctx, c, allReducePieces(new(comm.Args), c, send, recv, op), send, recv)
}

// StartAllReduceCoalesced begins an AllReduceCoalesced; see Request. The outer slices send and recv may be changed when
// it returns, the inner ones may not.
func StartAllReduceCoalesced[T Element](c *Comm, send, recv [][]T, op Op) (Request, error) {
	return startPieces(c, allReducePieces(new(comm.Args), c, send, recv, op), send, recv)
}

// BroadcastCoalesced is one Broadcast of many slices, treated as one message: see AllReduceCoalesced. send is used on
// root only. After an error the contents of recv are undefined, and of send where it shares memory with recv.
func BroadcastCoalesced[T any](ctx context.Context, c *Comm, send, recv [][]T, root int) error {
	return runPieces(ctx, c, broadcastPieces(new(comm.Args), c, send, recv, root), send, recv)
}

// StartBroadcastCoalesced begins a BroadcastCoalesced; see Request.
func StartBroadcastCoalesced[T any](c *Comm, send, recv [][]T, root int) (Request, error) {
	return startPieces(c, broadcastPieces(new(comm.Args), c, send, recv, root), send, recv)
}

func allReducePieces[T Element](a *comm.Args, c *Comm, send, recv [][]T, op Op) *comm.Args {
	reduceArgs[T](a, c, plan.AllReduce, -1, nil, nil, op)
	return checkPieces(c, a, send, recv)
}

func broadcastPieces[T any](a *comm.Args, c *Comm, send, recv [][]T, root int) *comm.Args {
	argsOf[T](a, c, plan.Broadcast, root, nil, nil)
	if c.inner().Rank != root {
		return checkPieces(c, a, recv, recv)
	}
	return checkPieces(c, a, send, recv)
}

// checkPieces refuses slices that do not match each other, and counts the elements of all.
func checkPieces[T any](c *Comm, a *comm.Args, send, recv [][]T) *comm.Args {
	if a.Err == nil && len(send) != len(recv) {
		a.Refuse(c.inner(), "send has %d slices, recv %d", len(send), len(recv))
		return a
	}
	for i := 0; i < len(recv) && a.Err == nil; i++ {
		switch {
		case len(send[i]) != len(recv[i]):
			a.Refuse(c.inner(), "slice %d of send has %d elements, of recv %d", i, len(send[i]), len(recv[i]))
		case kernel.OverlapOf(kernel.BytesOf(send[i]), kernel.BytesOf(recv[i])) == kernel.Partial:
			a.Refuse(c.inner(), "slice %d of send and of recv overlap in part; use the same slice or two separate ones", i)
		}
		a.ID.Count += uint64(len(kernel.BytesOf(recv[i])) / a.DType.Size())
	}
	return a
}

// runPieces makes a call over slices and waits for it.
func runPieces[T any](ctx context.Context, c *Comm, a *comm.Args, send, recv [][]T) error {
	if err := beginPieces(ctx, c, a.As(calls.Coalesced), send, recv, true); err != nil {
		return err
	}
	defer c.inner().End()
	return c.inner().Go(ctx, a, &c.inner().Waiter)
}

// startPieces begins a call over slices.
func startPieces[T any](c *Comm, a *comm.Args, send, recv [][]T) (Request, error) {
	ctx := context.Background()
	if a.Form&calls.Prepared == 0 {
		a.As(calls.Started | calls.Coalesced)
	}
	if err := beginPieces(ctx, c, a, send, recv, false); err != nil {
		return Request{}, err
	}
	defer c.inner().End()
	r, err := comm.StartClaimed(c.inner(), a)
	return Request{r}, err
}

// beginPieces claims the communicator for call a, whose pieces are slices that have been checked, and in which this
// rank waits or which it only starts.
func beginPieces[T any](ctx context.Context, c *Comm, a *comm.Args, send, recv [][]T, waits bool) error {
	if err := c.inner().Begin(a); err != nil {
		return err
	}
	err := c.inner().Looks.Before(ctx, a, waits)
	if err == nil {
		err = c.inner().MakeRoom(ctx)
	}
	if err != nil {
		c.inner().End()
		return err
	}
	pieces := c.in.CallAt(c.in.Seq + 1).Pieces // memory of an earlier call
	a.Pieces = slices.Grow(pieces[:0], len(recv))
	gives := a.ID.Root < 0 || int(a.ID.Root) == c.inner().Rank
	for i, end := 0, 0; i < len(recv); i++ {
		end += len(kernel.BytesOf(recv[i]))
		p := engine.Piece{Out: kernel.BytesOf(recv[i]), End: end}
		if gives {
			p.In = kernel.BytesOf(send[i])
		}
		a.Pieces = append(a.Pieces, p)
	}
	return nil
}
