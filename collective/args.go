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
func (a *args) refuse(c *Comm, format string, v ...any) {
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

// setArgs sets, and checks, what all calls with buffers have in common. in and out are nil
// where this rank has none.
func setArgs[T Number](a *args, c *Comm, kind plan.Kind, root, count int, in, out []T) *args {
	a.kind, a.root, a.count, a.DType = kind, root, count, dtypeOf[T]()
	a.in, a.out = bytesOf(in), bytesOf(out)
	switch {
	case kind.HasRoot() && (root < 0 || root >= c.size):
		a.refuse(c, "root %d of %d ranks", root, c.size)
	case c.plans.Runs(kind) != nil:
		a.refuse(c, "%v", c.plans.Runs(kind))
	}
	return a
}

// reducing adds a reduction to a.
func (a *args) reducing(c *Comm, op Op) *args {
	if a.err == nil && !op.valid() {
		a.refuse(c, "no such operation: %d", op)
	}
	a.Op = kernel.Op(op)
	if op == Avg && a.out != nil {
		a.Divide = c.size
	}
	return a
}

// sameLength refuses send and recv of different lengths.
func (a *args) sameLength(c *Comm, send, recv int) *args {
	if a.err == nil && send != recv {
		a.refuse(c, "send has %d elements, recv %d", send, recv)
	}
	return a
}

// parts refuses whole unless it has one part for every rank.
func (a *args) parts(c *Comm, name string, whole, part int) *args {
	if a.err == nil && whole != part*c.size {
		a.refuse(c, "%s has %d elements, want %d parts of %d", name, whole, c.size, part)
	}
	return a
}

// separate refuses buffers that overlap in part.
func (a *args) separate(c *Comm) *args {
	if a.err == nil && overlapOf(a.in, a.out) == partial {
		a.refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return a
}

// separateParts refuses a part of one rank that overlaps the whole message and
// is not where the rank's part of it belongs.
func (a *args) separateParts(c *Comm, part, whole []byte) *args {
	if a.err != nil || overlapOf(part, whole) == apart {
		return a
	}
	n := len(part)
	if len(whole) != n*c.size || overlapOf(part, whole[c.rank*n:(c.rank+1)*n]) != inPlace {
		a.refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.rank)
	}
	return a
}

func allReduceArgs[T Number](a *args, c *Comm, send, recv []T, op Op) *args {
	setArgs(a, c, plan.AllReduce, -1, len(recv), send, recv)
	a.sameLength(c, len(send), len(recv)).reducing(c, op).separate(c)
	return a
}

func reduceArgs[T Number](a *args, c *Comm, send, recv []T, op Op, root int) *args {
	if c.rank != root {
		recv = nil
	}
	setArgs(a, c, plan.Reduce, root, len(send), send, recv)
	a.reducing(c, op)
	if c.rank == root {
		a.sameLength(c, len(send), len(recv)).separate(c)
	}
	return a
}

func broadcastArgs[T Number](a *args, c *Comm, send, recv []T, root int) *args {
	if c.rank != root {
		return setArgs(a, c, plan.Broadcast, root, len(recv), nil, recv)
	}
	setArgs(a, c, plan.Broadcast, root, len(recv), send, recv)
	a.sameLength(c, len(send), len(recv)).separate(c)
	return a
}

func allGatherArgs[T Number](a *args, c *Comm, send, recv []T) *args {
	setArgs(a, c, plan.AllGather, -1, len(send), send, recv)
	a.parts(c, "recv", len(recv), len(send)).separateParts(c, a.in, a.out)
	return a
}

func reduceScatterArgs[T Number](a *args, c *Comm, send, recv []T, op Op) *args {
	setArgs(a, c, plan.ReduceScatter, -1, len(recv), send, recv)
	a.parts(c, "send", len(send), len(recv)).reducing(c, op).separateParts(c, a.out, a.in)
	return a
}

func allToAllArgs[T Number](a *args, c *Comm, send, recv []T) *args {
	setArgs(a, c, plan.AllToAll, -1, len(recv)/c.size, send, recv)
	a.sameLength(c, len(send), len(recv)).parts(c, "recv", len(recv), len(recv)/c.size).separate(c)
	return a
}

func gatherArgs[T Number](a *args, c *Comm, send, recv []T, root int) *args {
	if c.rank != root {
		return setArgs(a, c, plan.Gather, root, len(send), send, nil)
	}
	setArgs(a, c, plan.Gather, root, len(send), send, recv)
	a.parts(c, "recv", len(recv), len(send)).separateParts(c, a.in, a.out)
	return a
}

func scatterArgs[T Number](a *args, c *Comm, send, recv []T, root int) *args {
	if c.rank != root {
		return setArgs(a, c, plan.Scatter, root, len(recv), nil, recv)
	}
	setArgs(a, c, plan.Scatter, root, len(recv), send, recv)
	a.parts(c, "send", len(send), len(recv)).separateParts(c, a.out, a.in)
	return a
}

func barrierArgs(a *args) *args {
	a.kind, a.Op, a.root, a.DType = plan.Barrier, kernel.Sum, -1, kernel.Uint8
	return a
}

// preMultiplied makes the sum of a one of what every rank has multiplied by its
// factor.
func preMultiplied[T Number](a *args, factor T) *args {
	a.Scale, a.Factor = true, elementOf(factor)
	return a
}
