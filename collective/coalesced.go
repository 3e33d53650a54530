package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/plan"
)

// AllReduceCoalesced is one AllReduce over many slices, as if they were one:
// recv[i] gets the combination of all ranks' send[i]. Small slices so share the
// time that a call takes, and nothing is copied to bring them together. All
// ranks give slices of the same lengths, in the same order. A slice of recv may
// be the one of send; the order of additions depends on the total length.
func AllReduceCoalesced[T Number](ctx context.Context, c *Comm, send, recv [][]T, op Op) error {
	r, err := StartAllReduceCoalesced(c, send, recv, op)
	if err != nil {
		return err
	}
	return r.Wait(ctx)
}

// StartAllReduceCoalesced begins an AllReduceCoalesced; see Request. send and
// recv themselves may be changed when it returns, what their slices refer to
// may not.
func StartAllReduceCoalesced[T Number](c *Comm, send, recv [][]T, op Op) (Request, error) {
	var a args
	setArgs[T](&a, c, plan.AllReduce, -1, 0, nil, nil)
	a.reducing(c, op)
	if op == Avg {
		a.divide = c.size
	}
	return startPieces(c, &a, send, recv)
}

// BroadcastCoalesced is one Broadcast of many slices, as if they were one: see
// AllReduceCoalesced. send is used on root only.
func BroadcastCoalesced[T Number](ctx context.Context, c *Comm, send, recv [][]T, root int) error {
	r, err := StartBroadcastCoalesced(c, send, recv, root)
	if err != nil {
		return err
	}
	return r.Wait(ctx)
}

// StartBroadcastCoalesced begins a BroadcastCoalesced; see Request.
func StartBroadcastCoalesced[T Number](c *Comm, send, recv [][]T, root int) (Request, error) {
	var a args
	setArgs[T](&a, c, plan.Broadcast, root, 0, nil, nil)
	if c.rank != root {
		return startPieces(c, &a, nil, recv)
	}
	return startPieces(c, &a, send, recv)
}

// startPieces begins a call over the slices of send, which may be nil, and
// recv.
func startPieces[T Number](c *Comm, a *args, send, recv [][]T) (Request, error) {
	if a.err == nil && send != nil && len(send) != len(recv) {
		a.refuse(c, "send has %d slices, recv %d", len(send), len(recv))
	}
	if a.err != nil {
		return Request{}, a.err
	}
	if err := c.begin(a.kind); err != nil {
		return Request{}, err
	}
	defer c.end()
	if err := c.makeRoom(context.Background()); err != nil {
		return Request{}, err
	}
	a.pieces = c.calls[(c.seq+1)%inFlight].Pieces[:0] // the memory of an earlier call's
	for i := range recv {
		p := exec.Piece{Out: bytesOf(recv[i])}
		if send != nil {
			p.In = bytesOf(send[i])
			a.in, a.out = p.In, p.Out
			if a.sameLength(c, len(send[i]), len(recv[i])).separate(c); a.err != nil {
				return Request{}, a.err
			}
		}
		a.count += len(recv[i])
		p.End = a.count * a.dtype.Size()
		a.pieces = append(a.pieces, p)
	}
	a.in, a.out = nil, nil
	if err := c.enter(context.Background(), a); err != nil {
		return Request{}, err
	}
	return Request{c, c.seq}, nil
}
