package collective

import (
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
)

// StartAllReduce begins an AllReduce; see Request.
func StartAllReduce[T Element](c *Comm, send, recv []T, op Op) (Request, error) {
	return c.begun(reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, op))
}

// StartReduce begins a Reduce; see Request.
func StartReduce[T Element](c *Comm, send, recv []T, op Op, root int) (Request, error) {
	return c.begun(reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, op))
}

// StartBroadcast begins a Broadcast; see Request.
func StartBroadcast[T any](c *Comm, send, recv []T, root int) (Request, error) {
	return c.begun(argsOf(new(comm.Args), c, plan.Broadcast, root, send, recv))
}

// StartAllGather begins an AllGather; see Request.
func StartAllGather[T any](c *Comm, send, recv []T) (Request, error) {
	return c.begun(argsOf(new(comm.Args), c, plan.AllGather, -1, send, recv))
}

// StartReduceScatter begins a ReduceScatter; see Request.
func StartReduceScatter[T Element](c *Comm, send, recv []T, op Op) (Request, error) {
	return c.begun(reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, op))
}

// StartAllToAll begins an AllToAll; see Request.
func StartAllToAll[T any](c *Comm, send, recv []T) (Request, error) {
	return c.begun(argsOf(new(comm.Args), c, plan.AllToAll, -1, send, recv))
}

// StartGather begins a Gather; see Request.
func StartGather[T any](c *Comm, send, recv []T, root int) (Request, error) {
	return c.begun(argsOf(new(comm.Args), c, plan.Gather, root, send, recv))
}

// StartScatter begins a Scatter; see Request.
func StartScatter[T any](c *Comm, send, recv []T, root int) (Request, error) {
	return c.begun(argsOf(new(comm.Args), c, plan.Scatter, root, send, recv))
}

// StartBarrier begins a Barrier; see Request.
func StartBarrier(c *Comm) (Request, error) {
	return c.begun(new(comm.Args).SetBarrier())
}

// StartAllReducePreMul begins an AllReducePreMul; see Request.
func StartAllReducePreMul[T Element](c *Comm, send, recv []T, factor T) (Request, error) {
	return c.begun(preMultiplied(reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, Sum), factor))
}

// StartReducePreMul begins a ReducePreMul; see Request.
func StartReducePreMul[T Element](c *Comm, send, recv []T, factor T, root int) (Request, error) {
	return c.begun(preMultiplied(reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, Sum), factor))
}

// StartReduceScatterPreMul begins a ReduceScatterPreMul; see Request.
func StartReduceScatterPreMul[T Element](c *Comm, send, recv []T, factor T) (Request, error) {
	return c.begun(preMultiplied(reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, Sum), factor))
}

// StartAllReduceFunc begins an AllReduceFunc; see Request.
func StartAllReduceFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) (Request, error) {
	return c.begun(funcArgs(new(comm.Args), c, plan.AllReduce, send, recv, f, -1))
}

// StartReduceFunc begins a ReduceFunc; see Request.
func StartReduceFunc[T any](c *Comm, send, recv []T, f func(into, from []T), root int) (Request, error) {
	return c.begun(funcArgs(new(comm.Args), c, plan.Reduce, send, recv, f, root))
}

// StartScan begins a Scan; see Request.
func StartScan[T Element](c *Comm, send, recv []T, op Op) (Request, error) {
	return c.begun(reduceArgs(new(comm.Args), c, plan.Scan, -1, send, recv, op))
}

// StartExScan begins an ExScan; see Request.
func StartExScan[T Element](c *Comm, send, recv []T, op Op) (Request, error) {
	return c.begun(reduceArgs(new(comm.Args), c, plan.ExScan, -1, send, recv, op))
}

// StartScanFunc begins a ScanFunc; see Request.
func StartScanFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) (Request, error) {
	return c.begun(funcArgs(new(comm.Args), c, plan.Scan, send, recv, f, -1))
}

// StartExScanFunc begins an ExScanFunc; see Request.
func StartExScanFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) (Request, error) {
	return c.begun(funcArgs(new(comm.Args), c, plan.ExScan, send, recv, f, -1))
}

// StartReduceScatterFunc begins a ReduceScatterFunc; see Request.
func StartReduceScatterFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) (Request, error) {
	return c.begun(funcArgs(new(comm.Args), c, plan.ReduceScatter, send, recv, f, -1))
}
