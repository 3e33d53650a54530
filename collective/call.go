package collective

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// args is a call that has been checked and not begun.
type args struct {
	kind    plan.Kind
	root    int // -1 where there is none
	count   int // elements, of one part where there are parts
	in, out []byte
	kernel.Work
	pieces []engine.Piece // in place of in and out
	aside  bool           // it begins a call of a package below this one
	splits bool           // it begins a Split
	device bool           // it is a call on device memory

	registers bool  // it is RegisterDevice
	err       error // the call cannot be made
}

// refuse makes a an argument error.
func (a *args) refuse(c *inside, format string, v ...any) {
	a.err = fmt.Errorf("collective: %s on rank %d: %w: %w", a.name(), c.rank, ErrArgument, fmt.Errorf(format, v...))
}

// name is the name of the function that makes the call.
func (a *args) name() string {
	if a.registers {
		return "RegisterDevice"
	}
	if a.device {
		return engine.CallName(a.kind) + "Device"
	}
	return engine.CallName(a.kind)
}

// reducing adds a reduction to a.
func (a *args) reducing(c *inside, op kernel.Op) *args {
	if a.err == nil && (op < kernel.Sum || op > kernel.Avg) {
		a.refuse(c, "no such operation: %d", op)
	}
	a.Op = op
	if op == kernel.Avg && a.out != nil {
		a.Divide = c.size
	}
	return a
}

// sameLength refuses send and recv of different lengths.
func (a *args) sameLength(c *inside, send, recv int) *args {
	if a.err == nil && send != recv {
		a.refuse(c, "send has %d elements, recv %d", send, recv)
	}
	return a
}

// parts refuses whole unless it has one part for every rank.
func (a *args) parts(c *inside, name string, whole, part int) *args {
	if a.err == nil && whole != part*c.size {
		a.refuse(c, "%s has %d elements, want %d parts of %d", name, whole, c.size, part)
	}
	return a
}

// separate refuses buffers that overlap in part.
func (a *args) separate(c *inside) *args {
	if a.err == nil && overlapOf(a.in, a.out) == partial {
		a.refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return a
}

// separateParts refuses a part of one rank that overlaps the whole message and
// is not where the rank's part of it belongs.
func (a *args) separateParts(c *inside, part, whole []byte) *args {
	if a.err != nil || overlapOf(part, whole) == apart {
		return a
	}
	n := len(part)
	if len(whole) != n*c.size || overlapOf(part, whole[c.rank*n:(c.rank+1)*n]) != inPlace {
		a.refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.rank)
	}
	return a
}

// set sets, and checks, what all calls have in common. in and out are nil where this rank
// has none.
func (a *args) set(c *inside, kind plan.Kind, root, count int, t kernel.DType, in, out []byte) *args {
	a.kind, a.root, a.count, a.DType, a.in, a.out = kind, root, count, t, in, out
	switch {
	case kind.HasRoot() && (root < 0 || root >= c.size):
		a.refuse(c, "root %d of %d ranks", root, c.size)
	case c.plans.Runs(kind) != nil:
		a.refuse(c, "%v", c.plans.Runs(kind))
	}
	return a
}

// gathers makes a an AllGather of elements of t.
func (a *args) gathers(c *inside, t kernel.DType, mine, all []byte) *args {
	a.set(c, plan.AllGather, -1, len(mine)/t.Size(), t, mine, all)
	return a.parts(c, "recv", len(all), len(mine)).separateParts(c, mine, all)
}
