package collective

import (
	"context"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// AllReduceCoalesced is one AllReduce over many slices, as if they were one:
// recv[i] gets the combination of all ranks' send[i]. Small slices so share the
// time that a call takes, and nothing is copied to bring them together. send[i]
// and recv[i] have the same length and may be the same slice; apart from that
// no slice of recv overlaps another slice. All ranks give the same number of
// elements in all; where a slice ends may differ. The order of additions
// depends on that number.
// After an error the contents of send and recv are undefined.
func AllReduceCoalesced[T Number](ctx context.Context, c *Comm, send, recv [][]T, op Op) error {
	var a args
	return runPieces(ctx, c, allReducePieces(&a, c, send, recv, op), send, recv)
}

// StartAllReduceCoalesced begins an AllReduceCoalesced; see Request. send and
// recv themselves may be changed when it returns, what their slices refer to
// may not.
func StartAllReduceCoalesced[T Number](c *Comm, send, recv [][]T, op Op) (Request, error) {
	var a args
	return startPieces(c, allReducePieces(&a, c, send, recv, op), send, recv)
}

// BroadcastCoalesced is one Broadcast of many slices, as if they were one: see
// AllReduceCoalesced. send is used on root only.
// After an error the contents of send and recv are undefined.
func BroadcastCoalesced[T Number](ctx context.Context, c *Comm, send, recv [][]T, root int) error {
	var a args
	return runPieces(ctx, c, broadcastPieces(&a, c, send, recv, root), send, recv)
}

// StartBroadcastCoalesced begins a BroadcastCoalesced; see Request.
func StartBroadcastCoalesced[T Number](c *Comm, send, recv [][]T, root int) (Request, error) {
	var a args
	return startPieces(c, broadcastPieces(&a, c, send, recv, root), send, recv)
}

func allReducePieces[T Number](a *args, c *Comm, send, recv [][]T, op Op) *args {
	setArgs[T](a, c, plan.AllReduce, -1, 0, nil, nil).reducing(c.inside, kernel.Op(op))
	if op == Avg {
		a.Divide = c.size
	}
	return checkPieces(c, a, send, recv)
}

func broadcastPieces[T Number](a *args, c *Comm, send, recv [][]T, root int) *args {
	setArgs[T](a, c, plan.Broadcast, root, 0, nil, nil)
	if c.rank != root {
		return checkPieces(c, a, recv, recv)
	}
	return checkPieces(c, a, send, recv)
}

// checkPieces refuses slices that do not fit each other and counts the
// elements of all.
func checkPieces[T Number](c *Comm, a *args, send, recv [][]T) *args {
	if a.err == nil && len(send) != len(recv) {
		a.refuse(c.inside, "send has %d slices, recv %d", len(send), len(recv))
		return a
	}
	for i := 0; i < len(recv) && a.err == nil; i++ {
		switch {
		case len(send[i]) != len(recv[i]):
			a.refuse(c.inside, "slice %d of send has %d elements, of recv %d", i, len(send[i]), len(recv[i]))
		case overlapOf(bytesOf(send[i]), bytesOf(recv[i])) == partial:
			a.refuse(c.inside, "slice %d of send and of recv overlap in part; use the same slice or two separate ones", i)
		}
		a.count += len(recv[i])
	}
	return a
}

// runPieces makes a call over slices and waits for it.
func runPieces[T Number](ctx context.Context, c *Comm, a *args, send, recv [][]T) error {
	if a.err != nil {
		return a.err
	}
	if err := c.begin(a.kind); err != nil {
		return err
	}
	defer c.end()
	if ctx.Err() != nil {
		return c.cancel(ctx, a)
	}
	if err := enterPieces(ctx, c, a, send, recv); err != nil {
		return err
	}
	return c.wait(ctx, c.seq)
}

// startPieces begins a call over slices.
func startPieces[T Number](c *Comm, a *args, send, recv [][]T) (Request, error) {
	if a.err != nil {
		return Request{}, a.err
	}
	if err := c.begin(a.kind); err != nil {
		return Request{}, err
	}
	defer c.end()
	if err := enterPieces(context.Background(), c, a, send, recv); err != nil {
		return Request{}, err
	}
	return Request{c.latest()}, nil
}

// enterPieces begins the next call of the communicator, which is claimed, over
// slices that have been checked.
func enterPieces[T Number](ctx context.Context, c *Comm, a *args, send, recv [][]T) error {
	if err := c.makeRoom(ctx); err != nil {
		return err
	}
	a.pieces = slices.Grow(c.calls[(c.seq+1)%inFlight].Pieces[:0], len(recv)) // the memory of an earlier call's
	gives := a.root < 0 || a.root == c.rank
	for i, end := 0, 0; i < len(recv); i++ {
		end += len(recv[i]) * a.DType.Size()
		p := engine.Piece{Out: bytesOf(recv[i]), End: end}
		if gives {
			p.In = bytesOf(send[i])
		}
		a.pieces = append(a.pieces, p)
	}
	return c.enter(ctx, a)
}
