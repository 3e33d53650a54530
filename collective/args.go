package collective

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/comm"
	"github.com/treerun/treerun/internal/kernel"
)

// setArgs sets, and checks, what all calls with buffers have in common. in and out are nil
// where this rank has none.
func setArgs[T Number](a *comm.Args, c *Comm, kind plan.Kind, root, count int, in, out []T) *comm.Args {
	return a.Set(c.in, kind, root, count, dtypeOf[T](), bytesOf(in), bytesOf(out))
}

func allReduceArgs[T Number](a *comm.Args, c *Comm, send, recv []T, op Op) *comm.Args {
	setArgs(a, c, plan.AllReduce, -1, len(recv), send, recv)
	a.SameLength(c.in, len(send), len(recv)).Reducing(c.in, kernel.Op(op)).Separate(c.in)
	return a
}

func reduceArgs[T Number](a *comm.Args, c *Comm, send, recv []T, op Op, root int) *comm.Args {
	if c.in.Rank != root {
		recv = nil
	}
	setArgs(a, c, plan.Reduce, root, len(send), send, recv)
	a.Reducing(c.in, kernel.Op(op))
	if c.in.Rank == root {
		a.SameLength(c.in, len(send), len(recv)).Separate(c.in)
	}
	return a
}

func broadcastArgs[T Number](a *comm.Args, c *Comm, send, recv []T, root int) *comm.Args {
	if c.in.Rank != root {
		return setArgs(a, c, plan.Broadcast, root, len(recv), nil, recv)
	}
	setArgs(a, c, plan.Broadcast, root, len(recv), send, recv)
	a.SameLength(c.in, len(send), len(recv)).Separate(c.in)
	return a
}

func allGatherArgs[T Number](a *comm.Args, c *Comm, send, recv []T) *comm.Args {
	setArgs(a, c, plan.AllGather, -1, len(send), send, recv)
	a.Parts(c.in, "recv", len(recv), len(send)).SeparateParts(c.in, a.In, a.Out)
	return a
}

func reduceScatterArgs[T Number](a *comm.Args, c *Comm, send, recv []T, op Op) *comm.Args {
	setArgs(a, c, plan.ReduceScatter, -1, len(recv), send, recv)
	a.Parts(c.in, "send", len(send), len(recv)).Reducing(c.in, kernel.Op(op)).SeparateParts(c.in, a.Out, a.In)
	return a
}

func allToAllArgs[T Number](a *comm.Args, c *Comm, send, recv []T) *comm.Args {
	setArgs(a, c, plan.AllToAll, -1, len(recv)/c.in.Size, send, recv)
	a.SameLength(c.in, len(send), len(recv)).Parts(c.in, "recv", len(recv), len(recv)/c.in.Size).Separate(c.in)
	return a
}

func gatherArgs[T Number](a *comm.Args, c *Comm, send, recv []T, root int) *comm.Args {
	if c.in.Rank != root {
		return setArgs(a, c, plan.Gather, root, len(send), send, nil)
	}
	setArgs(a, c, plan.Gather, root, len(send), send, recv)
	a.Parts(c.in, "recv", len(recv), len(send)).SeparateParts(c.in, a.In, a.Out)
	return a
}

func scatterArgs[T Number](a *comm.Args, c *Comm, send, recv []T, root int) *comm.Args {
	if c.in.Rank != root {
		return setArgs(a, c, plan.Scatter, root, len(recv), nil, recv)
	}
	setArgs(a, c, plan.Scatter, root, len(recv), send, recv)
	a.Parts(c.in, "send", len(send), len(recv)).SeparateParts(c.in, a.Out, a.In)
	return a
}

// preMultiplied makes the sum of a one of what every rank has multiplied by its
// factor.
func preMultiplied[T Number](a *comm.Args, factor T) *comm.Args {
	a.Scale, a.Factor = true, elementOf(factor)
	return a
}

func barrierArgs(a *comm.Args) *comm.Args {
	a.Kind, a.Op, a.Root, a.DType = plan.Barrier, kernel.Sum, -1, kernel.Uint8
	return a
}
