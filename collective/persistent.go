package collective

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
)

// Persistent is a call whose arguments are checked once and which then runs many times, always with the same slices.
// Like every call, it runs on all ranks, in the same order among the other calls, where Start or Run counts as the
// call; requests may be waited for in any order. If ranks start two of them in different orders, they get an
// ErrMismatch that names both. Those that differ only in their slices are distinguished by the order of their Inits,
// which must be the same on all ranks. A Persistent holds no resources and needs no Close.
type Persistent struct {
	c *Comm
	a *comm.Args
}

// Run makes the call and waits for it.
func (p *Persistent) Run(ctx context.Context) error {
	if p.a == nil {
		return errZeroPersistent
	}
	return p.c.inner().Run(ctx, p.a)
}

var errZeroPersistent = fmt.Errorf("collective: Persistent: %w: it is the zero value (hint: AllReduceInit and the "+
	"other Inits make one)", ErrArgument)

// Start begins the call; see Request. The calls of one Persistent must not
// overlap, as they use the same slices.
func (p *Persistent) Start() (Request, error) {
	if p.a == nil {
		return Request{}, errZeroPersistent
	}
	return p.c.begun(p.a)
}

func persistent(c *Comm, a *comm.Args) (*Persistent, error) {
	a.As(calls.Prepared)
	if a.Prepare(c.inner(), 0); a.Err != nil {
		return nil, a.Err
	}
	return &Persistent{c: c, a: a}, nil
}

// AllReduceInit prepares an AllReduce.
func AllReduceInit[T Element](c *Comm, send, recv []T, op Op) (*Persistent, error) {
	return persistent(c, reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, op))
}

// ReduceInit prepares a Reduce.
func ReduceInit[T Element](c *Comm, send, recv []T, op Op, root int) (*Persistent, error) {
	return persistent(c, reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, op))
}

// BroadcastInit prepares a Broadcast.
func BroadcastInit[T any](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return persistent(c, argsOf(new(comm.Args), c, plan.Broadcast, root, send, recv))
}

// AllGatherInit prepares an AllGather.
func AllGatherInit[T any](c *Comm, send, recv []T) (*Persistent, error) {
	return persistent(c, argsOf(new(comm.Args), c, plan.AllGather, -1, send, recv))
}

// ReduceScatterInit prepares a ReduceScatter.
func ReduceScatterInit[T Element](c *Comm, send, recv []T, op Op) (*Persistent, error) {
	return persistent(c, reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, op))
}

// AllToAllInit prepares an AllToAll.
func AllToAllInit[T any](c *Comm, send, recv []T) (*Persistent, error) {
	return persistent(c, argsOf(new(comm.Args), c, plan.AllToAll, -1, send, recv))
}

// GatherInit prepares a Gather.
func GatherInit[T any](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return persistent(c, argsOf(new(comm.Args), c, plan.Gather, root, send, recv))
}

// ScatterInit prepares a Scatter.
func ScatterInit[T any](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return persistent(c, argsOf(new(comm.Args), c, plan.Scatter, root, send, recv))
}

// BarrierInit prepares a Barrier.
func BarrierInit(c *Comm) (*Persistent, error) {
	return persistent(c, new(comm.Args).SetBarrier())
}

// AllReducePreMulInit prepares an AllReducePreMul.
func AllReducePreMulInit[T Element](c *Comm, send, recv []T, factor T) (*Persistent, error) {
	return persistent(c, preMultiplied(reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, Sum), factor))
}

// ReducePreMulInit prepares a ReducePreMul.
func ReducePreMulInit[T Element](c *Comm, send, recv []T, factor T, root int) (*Persistent, error) {
	return persistent(c, preMultiplied(reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, Sum), factor))
}

// ReduceScatterPreMulInit prepares a ReduceScatterPreMul.
func ReduceScatterPreMulInit[T Element](c *Comm, send, recv []T, factor T) (*Persistent, error) {
	return persistent(c, preMultiplied(reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, Sum), factor))
}

// AllReduceFuncInit prepares an AllReduceFunc.
func AllReduceFuncInit[T any](c *Comm, send, recv []T, f func(into, from []T)) (*Persistent, error) {
	return persistent(c, funcArgs(new(comm.Args), c, plan.AllReduce, send, recv, f, -1))
}

// ReduceFuncInit prepares a ReduceFunc.
func ReduceFuncInit[T any](c *Comm, send, recv []T, f func(into, from []T), root int) (*Persistent, error) {
	return persistent(c, funcArgs(new(comm.Args), c, plan.Reduce, send, recv, f, root))
}

// ScanInit prepares a Scan.
func ScanInit[T Element](c *Comm, send, recv []T, op Op) (*Persistent, error) {
	return persistent(c, reduceArgs(new(comm.Args), c, plan.Scan, -1, send, recv, op))
}

// ExScanInit prepares an ExScan.
func ExScanInit[T Element](c *Comm, send, recv []T, op Op) (*Persistent, error) {
	return persistent(c, reduceArgs(new(comm.Args), c, plan.ExScan, -1, send, recv, op))
}

// ScanFuncInit prepares a ScanFunc.
func ScanFuncInit[T any](c *Comm, send, recv []T, f func(into, from []T)) (*Persistent, error) {
	return persistent(c, funcArgs(new(comm.Args), c, plan.Scan, send, recv, f, -1))
}

// ExScanFuncInit prepares an ExScanFunc.
func ExScanFuncInit[T any](c *Comm, send, recv []T, f func(into, from []T)) (*Persistent, error) {
	return persistent(c, funcArgs(new(comm.Args), c, plan.ExScan, send, recv, f, -1))
}

// ReduceScatterFuncInit prepares a ReduceScatterFunc.
func ReduceScatterFuncInit[T any](c *Comm, send, recv []T, f func(into, from []T)) (*Persistent, error) {
	return persistent(c, funcArgs(new(comm.Args), c, plan.ReduceScatter, send, recv, f, -1))
}
