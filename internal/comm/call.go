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
	if op == kernel.Avg && a.Out != nil {
		a.Divide = c.Size
	}
	return a
}

// SameLength refuses send and recv of different lengths.
func (a *Args) SameLength(c *Comm, send, recv int) *Args {
	if a.Err == nil && send != recv {
		a.Refuse(c, "send has %d elements, recv %d", send, recv)
	}
	return a
}

// Parts refuses whole unless it has one part for every rank.
func (a *Args) Parts(c *Comm, name string, whole, part int) *Args {
	if a.Err == nil && whole != part*c.Size {
		a.Refuse(c, "%s has %d elements, want %d parts of %d", name, whole, c.Size, part)
	}
	return a
}

// Separate refuses buffers that overlap in part.
func (a *Args) Separate(c *Comm) *Args {
	if a.Err == nil && setup.OverlapOf(a.In, a.Out) == setup.Partial {
		a.Refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return a
}

// SeparateParts refuses a part of one rank that overlaps the whole message and
// is not where the rank's part of it belongs.
func (a *Args) SeparateParts(c *Comm, part, whole []byte) *Args {
	if a.Err != nil || setup.OverlapOf(part, whole) == setup.Apart {
		return a
	}
	n := len(part)
	if len(whole) != n*c.Size || setup.OverlapOf(part, whole[c.Rank*n:(c.Rank+1)*n]) != setup.InPlace {
		a.Refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.Rank)
	}
	return a
}

// Set sets, and checks, what all calls have in common. in and out are nil where this rank
// has none.
func (a *Args) Set(c *Comm, kind plan.Kind, root, count int, t kernel.DType, in, out []byte) *Args {
	a.Kind, a.Root, a.Count, a.DType, a.In, a.Out = kind, root, count, t, in, out
	switch {
	case kind.HasRoot() && (root < 0 || root >= c.Size):
		a.Refuse(c, "root %d of %d ranks", root, c.Size)
	case c.Plans.Runs(kind) != nil:
		a.Refuse(c, "%v", c.Plans.Runs(kind))
	}
	return a
}

// gathers makes a an AllGather of elements of t.
func (a *Args) gathers(c *Comm, t kernel.DType, mine, all []byte) *Args {
	a.Set(c, plan.AllGather, -1, len(mine)/t.Size(), t, mine, all)
	return a.Parts(c, "recv", len(all), len(mine)).SeparateParts(c, mine, all)
}
