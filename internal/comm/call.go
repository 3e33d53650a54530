package comm

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// Args is a call that has been checked and not begun.
type Args struct {
	Kind    plan.Kind
	Root    int // -1 where there is none
	Count   int // elements, of one part where there are parts
	In, Out []byte
	kernel.Work
	Pieces   []engine.Piece // in place of in and out
	exchange bool           // it begins a call of package sparse, or opens something
	splits   bool           // it begins a Split
	device   bool           // it is a call on device memory
	Err      error          // the call cannot be made
}

// Refuse makes a an argument error.
func (a *Args) Refuse(c *Comm, format string, v ...any) {
	a.Err = fmt.Errorf("collective: %s on rank %d: %w: %w", a.name(), c.Rank, setup.ErrArgument, fmt.Errorf(format, v...))
}

// name is the name of the function that makes the call.
func (a *Args) name() string {
	if a.device {
		return engine.CallName(a.Kind) + "Device"
	}
	return engine.CallName(a.Kind)
}

// Set sets, and checks, what all calls with buffers have in common: lengths and places of
// send and recv are as kind wants them on this rank. In and Out stay the caller's to set;
// that which this rank has none of is left alone.
func (a *Args) Set(c *Comm, kind plan.Kind, root int, t kernel.DType, send, recv setup.Span) *Args {
	a.Kind, a.Root, a.Count, a.DType = kind, root, recv.Count, t
	switch kind {
	case plan.Reduce, plan.AllGather, plan.Gather:
		a.Count = send.Count
	case plan.AllToAll:
		a.Count /= c.Size
	}
	gives, gets := c.has(kind, root)
	switch err := c.Plans.Runs(kind); {
	case a.Err != nil:
	case kind.HasRoot() && (root < 0 || root >= c.Size):
		a.Refuse(c, "root %d of %d ranks", root, c.Size)
	case err != nil:
		a.Refuse(c, "%v", err)
	case !gives || !gets:
	case kind == plan.AllGather || kind == plan.Gather:
		a.parts(c, "recv", recv, send)
	case kind == plan.ReduceScatter || kind == plan.Scatter:
		a.parts(c, "send", send, recv)
	case send.Count != recv.Count:
		a.Refuse(c, "send has %d elements, recv %d", send.Count, recv.Count)
	case kind == plan.AllToAll && recv.Count != a.Count*c.Size:
		a.Refuse(c, "recv has %d elements, want %d parts of %d", recv.Count, c.Size, a.Count)
	case send.Overlap(recv) == setup.Partial:
		a.Refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return a
}

// has reports whether this rank gives something in a call of a kind, and gets something.
func (c *Comm) has(kind plan.Kind, root int) (gives, gets bool) {
	if !kind.HasRoot() || root == c.Rank {
		return true, true
	}
	fromRoot := kind == plan.Broadcast || kind == plan.Scatter
	return !fromRoot, fromRoot
}

// parts refuses whole unless it has one part for every rank, and a part that overlaps it
// and is not where the rank's part of it belongs.
func (a *Args) parts(c *Comm, name string, whole, part setup.Span) {
	own := part
	own.Addr = whole.Addr + uint64(c.Rank*part.Bytes)
	switch {
	case whole.Count != part.Count*c.Size:
		a.Refuse(c, "%s has %d elements, want %d parts of %d", name, whole.Count, c.Size, part.Count)
	case part.Overlap(whole) != setup.Apart && part.Overlap(own) != setup.InPlace:
		a.Refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.Rank)
	}
}

// SetHost is Set for a call on host memory, of so many elements each.
func (a *Args) SetHost(c *Comm, kind plan.Kind, root int, t kernel.DType, send, recv []byte, sends, recvs int) *Args {
	in, out := setup.SpanOf(send), setup.SpanOf(recv)
	in.Count, out.Count = sends, recvs
	gives, gets := c.has(kind, root)
	if gives {
		a.In = send
	}
	if gets {
		a.Out = recv
	}
	return a.Set(c, kind, root, t, in, out)
}

// Reducing adds a reduction to a.
func (a *Args) Reducing(c *Comm, op kernel.Op) *Args {
	switch {
	case a.Err != nil:
	case !op.Valid():
		a.Refuse(c, "no such operation: %d", op)
	case !op.Takes(a.DType):
		a.Refuse(c, "operation %v is for integers, not for %v", op, a.DType)
	case a.device && op > kernel.Avg:
		a.Refuse(c, "device calls have no operation %v", op)
	}
	a.Op = op
	if _, gets := c.has(a.Kind, a.Root); gets && op == kernel.Avg {
		a.Divide = c.Size
	}
	return a
}

// gathers makes a an AllGather of elements of t.
func (a *Args) gathers(c *Comm, t kernel.DType, mine, all []byte) *Args {
	return a.SetHost(c, plan.AllGather, -1, t, mine, all, len(mine)/t.Size(), len(all)/t.Size())
}
