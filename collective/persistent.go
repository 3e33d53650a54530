package collective

import "context"

// Persistent is a call whose arguments are checked once and which then runs
// many times, always with the same slices. Like every call, it runs on all
// ranks, in the same order among the other calls. It holds no resources and
// needs no end.
type Persistent struct {
	c *Comm
	a *args
}

// Run makes the call and waits for it.
func (p *Persistent) Run(ctx context.Context) error { return p.c.run(ctx, p.a) }

// Start begins the call; see Request. The calls of one Persistent must not
// overlap, as they use the same slices.
func (p *Persistent) Start() (Request, error) { return p.c.begun(p.a) }

func persistent(c *Comm, a *args) (*Persistent, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &Persistent{c: c, a: a}, nil
}

// AllReduceInit prepares an AllReduce.
func AllReduceInit[T Number](c *Comm, send, recv []T, op Op) (*Persistent, error) {
	return persistent(c, allReduceArgs(new(args), c, send, recv, op))
}

// ReduceInit prepares a Reduce.
func ReduceInit[T Number](c *Comm, send, recv []T, op Op, root int) (*Persistent, error) {
	return persistent(c, reduceArgs(new(args), c, send, recv, op, root))
}

// BroadcastInit prepares a Broadcast.
func BroadcastInit[T Number](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return persistent(c, broadcastArgs(new(args), c, send, recv, root))
}

// AllGatherInit prepares an AllGather.
func AllGatherInit[T Number](c *Comm, send, recv []T) (*Persistent, error) {
	return persistent(c, allGatherArgs(new(args), c, send, recv))
}

// ReduceScatterInit prepares a ReduceScatter.
func ReduceScatterInit[T Number](c *Comm, send, recv []T, op Op) (*Persistent, error) {
	return persistent(c, reduceScatterArgs(new(args), c, send, recv, op))
}

// AllToAllInit prepares an AllToAll.
func AllToAllInit[T Number](c *Comm, send, recv []T) (*Persistent, error) {
	return persistent(c, allToAllArgs(new(args), c, send, recv))
}

// GatherInit prepares a Gather.
func GatherInit[T Number](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return persistent(c, gatherArgs(new(args), c, send, recv, root))
}

// ScatterInit prepares a Scatter.
func ScatterInit[T Number](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return persistent(c, scatterArgs(new(args), c, send, recv, root))
}

// BarrierInit prepares a Barrier.
func BarrierInit(c *Comm) (*Persistent, error) {
	return persistent(c, barrierArgs(new(args)))
}

// AllReducePreMulInit prepares an AllReducePreMul.
func AllReducePreMulInit[T Number](c *Comm, send, recv []T, factor T) (*Persistent, error) {
	return persistent(c, preMultiplied(allReduceArgs(new(args), c, send, recv, Sum), factor))
}

// ReducePreMulInit prepares a ReducePreMul.
func ReducePreMulInit[T Number](c *Comm, send, recv []T, factor T, root int) (*Persistent, error) {
	return persistent(c, preMultiplied(reduceArgs(new(args), c, send, recv, Sum, root), factor))
}

// ReduceScatterPreMulInit prepares a ReduceScatterPreMul.
func ReduceScatterPreMulInit[T Number](c *Comm, send, recv []T, factor T) (*Persistent, error) {
	return persistent(c, preMultiplied(reduceScatterArgs(new(args), c, send, recv, Sum), factor))
}
