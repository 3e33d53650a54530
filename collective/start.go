package collective

import "github.com/treerun/treerun/internal/comm"

// StartAllReduce begins an AllReduce; see Request.
func StartAllReduce[T Number](c *Comm, send, recv []T, op Op) (Request, error) {
	var a comm.Args
	return c.begun(allReduceArgs(&a, c, send, recv, op))
}

// StartReduce begins a Reduce; see Request.
func StartReduce[T Number](c *Comm, send, recv []T, op Op, root int) (Request, error) {
	var a comm.Args
	return c.begun(reduceArgs(&a, c, send, recv, op, root))
}

// StartBroadcast begins a Broadcast; see Request.
func StartBroadcast[T Number](c *Comm, send, recv []T, root int) (Request, error) {
	var a comm.Args
	return c.begun(broadcastArgs(&a, c, send, recv, root))
}

// StartAllGather begins an AllGather; see Request.
func StartAllGather[T Number](c *Comm, send, recv []T) (Request, error) {
	var a comm.Args
	return c.begun(allGatherArgs(&a, c, send, recv))
}

// StartReduceScatter begins a ReduceScatter; see Request.
func StartReduceScatter[T Number](c *Comm, send, recv []T, op Op) (Request, error) {
	var a comm.Args
	return c.begun(reduceScatterArgs(&a, c, send, recv, op))
}

// StartAllToAll begins an AllToAll; see Request.
func StartAllToAll[T Number](c *Comm, send, recv []T) (Request, error) {
	var a comm.Args
	return c.begun(allToAllArgs(&a, c, send, recv))
}

// StartGather begins a Gather; see Request.
func StartGather[T Number](c *Comm, send, recv []T, root int) (Request, error) {
	var a comm.Args
	return c.begun(gatherArgs(&a, c, send, recv, root))
}

// StartScatter begins a Scatter; see Request.
func StartScatter[T Number](c *Comm, send, recv []T, root int) (Request, error) {
	var a comm.Args
	return c.begun(scatterArgs(&a, c, send, recv, root))
}

// StartBarrier begins a Barrier; see Request.
func StartBarrier(c *Comm) (Request, error) {
	var a comm.Args
	return c.begun(barrierArgs(&a))
}

// StartAllReducePreMul begins an AllReducePreMul; see Request.
func StartAllReducePreMul[T Number](c *Comm, send, recv []T, factor T) (Request, error) {
	var a comm.Args
	return c.begun(preMultiplied(allReduceArgs(&a, c, send, recv, Sum), factor))
}

// StartReducePreMul begins a ReducePreMul; see Request.
func StartReducePreMul[T Number](c *Comm, send, recv []T, factor T, root int) (Request, error) {
	var a comm.Args
	return c.begun(preMultiplied(reduceArgs(&a, c, send, recv, Sum, root), factor))
}

// StartReduceScatterPreMul begins a ReduceScatterPreMul; see Request.
func StartReduceScatterPreMul[T Number](c *Comm, send, recv []T, factor T) (Request, error) {
	var a comm.Args
	return c.begun(preMultiplied(reduceScatterArgs(&a, c, send, recv, Sum), factor))
}
