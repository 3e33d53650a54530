package collective

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/kernel"
)

// setArgs sets, and checks, what all calls with buffers have in common. in and out are nil
// where this rank has none.
func setArgs[T Number](a *args, c *Comm, kind plan.Kind, root, count int, in, out []T) *args {
	return a.set(c.inside, kind, root, count, dtypeOf[T](), bytesOf(in), bytesOf(out))
}

func allReduceArgs[T Number](a *args, c *Comm, send, recv []T, op Op) *args {
	setArgs(a, c, plan.AllReduce, -1, len(recv), send, recv)
	a.sameLength(c.inside, len(send), len(recv)).reducing(c.inside, kernel.Op(op)).separate(c.inside)
	return a
}

func reduceArgs[T Number](a *args, c *Comm, send, recv []T, op Op, root int) *args {
	if c.rank != root {
		recv = nil
	}
	setArgs(a, c, plan.Reduce, root, len(send), send, recv)
	a.reducing(c.inside, kernel.Op(op))
	if c.rank == root {
		a.sameLength(c.inside, len(send), len(recv)).separate(c.inside)
	}
	return a
}

func broadcastArgs[T Number](a *args, c *Comm, send, recv []T, root int) *args {
	if c.rank != root {
		return setArgs(a, c, plan.Broadcast, root, len(recv), nil, recv)
	}
	setArgs(a, c, plan.Broadcast, root, len(recv), send, recv)
	a.sameLength(c.inside, len(send), len(recv)).separate(c.inside)
	return a
}

func allGatherArgs[T Number](a *args, c *Comm, send, recv []T) *args {
	setArgs(a, c, plan.AllGather, -1, len(send), send, recv)
	a.parts(c.inside, "recv", len(recv), len(send)).separateParts(c.inside, a.in, a.out)
	return a
}

func reduceScatterArgs[T Number](a *args, c *Comm, send, recv []T, op Op) *args {
	setArgs(a, c, plan.ReduceScatter, -1, len(recv), send, recv)
	a.parts(c.inside, "send", len(send), len(recv)).reducing(c.inside, kernel.Op(op)).separateParts(c.inside, a.out, a.in)
	return a
}

func allToAllArgs[T Number](a *args, c *Comm, send, recv []T) *args {
	setArgs(a, c, plan.AllToAll, -1, len(recv)/c.size, send, recv)
	a.sameLength(c.inside, len(send), len(recv)).parts(c.inside, "recv", len(recv), len(recv)/c.size).separate(c.inside)
	return a
}

func gatherArgs[T Number](a *args, c *Comm, send, recv []T, root int) *args {
	if c.rank != root {
		return setArgs(a, c, plan.Gather, root, len(send), send, nil)
	}
	setArgs(a, c, plan.Gather, root, len(send), send, recv)
	a.parts(c.inside, "recv", len(recv), len(send)).separateParts(c.inside, a.in, a.out)
	return a
}

func scatterArgs[T Number](a *args, c *Comm, send, recv []T, root int) *args {
	if c.rank != root {
		return setArgs(a, c, plan.Scatter, root, len(recv), nil, recv)
	}
	setArgs(a, c, plan.Scatter, root, len(recv), send, recv)
	a.parts(c.inside, "send", len(send), len(recv)).separateParts(c.inside, a.out, a.in)
	return a
}

// preMultiplied makes the sum of a one of what every rank has multiplied by its
// factor.
func preMultiplied[T Number](a *args, factor T) *args {
	a.Scale, a.Factor = true, elementOf(factor)
	return a
}

func barrierArgs(a *args) *args {
	a.kind, a.Op, a.root, a.DType = plan.Barrier, kernel.Sum, -1, kernel.Uint8
	return a
}
