package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// AllGatherV stores send of all ranks, one after the other, in recv on every rank. The length of send is counts[rank],
// that of recv the sum of counts. In place, send is the rank's own part of recv. After an error the contents of recv
// are undefined, and of send where it shares memory with recv.
func AllGatherV[T any](ctx context.Context, c *Comm, send, recv []T, counts []int) error {
	a := new(comm.Args).Vary(c.inner(), plan.AllGather, counts, unitOf[T]())
	return c.inner().Run(ctx, argsOf(a, c, plan.AllGather, -1, send, recv))
}

// ReduceScatterV combines send of all ranks, element by element, with op, and stores part i of the result in recv on
// rank i. The length of recv is counts[rank], that of send the sum of counts. In place, recv is the rank's own part of
// send, and the other parts of send stay unchanged. After an error the contents of recv are undefined, and of send
// where it shares memory with recv.
func ReduceScatterV[T Element](ctx context.Context, c *Comm, send, recv []T, counts []int, op Op) error {
	a := new(comm.Args).Vary(c.inner(), plan.ReduceScatter, counts, 1)
	return c.inner().Run(ctx, reduceArgs(a, c, plan.ReduceScatter, -1, send, recv, op))
}

// GatherV stores send of all ranks, one after the other, in recv on rank root. counts and recv are used on root only:
// there counts has the length of each rank's send, and the length of recv is their sum. If a rank's send has another
// length, the call fails with ErrMismatch. In place, send of root is its own part of recv. After an error the contents
// of recv are undefined, and of send where it shares memory with recv.
func GatherV[T any](ctx context.Context, c *Comm, send, recv []T, counts []int, root int) error {
	a := new(comm.Args).VaryAt(c.inner(), plan.Gather, root, counts, unitOf[T]())
	return c.inner().Run(ctx, argsOf(a, c, plan.Gather, root, send, recv))
}

// ScatterV copies part i of send of rank root to recv of rank i. counts and send are used on root only: there counts
// has the length of each rank's recv, and the length of send is their sum. If a rank's recv has another length, the
// call fails with ErrMismatch. In place, recv of root is its own part of send. After an error the contents of recv are
// undefined, and of send where it shares memory with recv.
func ScatterV[T any](ctx context.Context, c *Comm, send, recv []T, counts []int, root int) error {
	a := new(comm.Args).VaryAt(c.inner(), plan.Scatter, root, counts, unitOf[T]())
	return c.inner().Run(ctx, argsOf(a, c, plan.Scatter, root, send, recv))
}

// AllToAllV copies part j of send of rank i to part i of recv of rank j. Part j of send has sendCounts[j] elements,
// part i of recv recvCounts[i]; the parts follow each other. If the length of a part on its sender and on its receiver
// differs, the call fails with ErrMismatch on the receiver; on other ranks the next call may fail instead. send and
// recv do not overlap. After an error the contents of recv are undefined.
func AllToAllV[T any](ctx context.Context, c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int) error {
	return c.inner().Run(ctx, allToAllV(new(comm.Args), c, send, sendCounts, recv, recvCounts))
}

func allToAllV[T any](a *comm.Args, c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int) *comm.Args {
	t := dtypeOf[T]()
	if t == 0 {
		a.ID.Kind, a.ID.Varied = calls.AllToAll, true
		a.Refuse(c.inner(), "%s", unmovable[T]())
		return a
	}
	return a.SetAllToAllV(c.inner(), t, kernel.BytesOf(send), sendCounts, kernel.BytesOf(recv), recvCounts,
		unitOf[T]())
}

// StartAllGatherV begins an AllGatherV; see Request. counts may be reused when it returns.
func StartAllGatherV[T any](c *Comm, send, recv []T, counts []int) (Request, error) {
	a := new(comm.Args).Vary(c.inner(), plan.AllGather, counts, unitOf[T]())
	return c.begun(argsOf(a, c, plan.AllGather, -1, send, recv))
}

// StartReduceScatterV begins a ReduceScatterV; see StartAllGatherV.
func StartReduceScatterV[T Element](c *Comm, send, recv []T, counts []int, op Op) (Request, error) {
	a := new(comm.Args).Vary(c.inner(), plan.ReduceScatter, counts, 1)
	return c.begun(reduceArgs(a, c, plan.ReduceScatter, -1, send, recv, op))
}

// StartGatherV begins a GatherV; see StartAllGatherV.
func StartGatherV[T any](c *Comm, send, recv []T, counts []int, root int) (Request, error) {
	a := new(comm.Args).VaryAt(c.inner(), plan.Gather, root, counts, unitOf[T]())
	return c.begun(argsOf(a, c, plan.Gather, root, send, recv))
}

// StartScatterV begins a ScatterV; see StartAllGatherV.
func StartScatterV[T any](c *Comm, send, recv []T, counts []int, root int) (Request, error) {
	a := new(comm.Args).VaryAt(c.inner(), plan.Scatter, root, counts, unitOf[T]())
	return c.begun(argsOf(a, c, plan.Scatter, root, send, recv))
}

// StartAllToAllV begins an AllToAllV; see StartAllGatherV.
func StartAllToAllV[T any](c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int) (Request, error) {
	return c.begun(allToAllV(new(comm.Args), c, send, sendCounts, recv, recvCounts))
}

// AllGatherVInit prepares an AllGatherV.
func AllGatherVInit[T any](c *Comm, send, recv []T, counts []int) (*Persistent, error) {
	a := new(comm.Args).Vary(c.inner(), plan.AllGather, counts, unitOf[T]())
	return persistent(c, argsOf(a, c, plan.AllGather, -1, send, recv))
}

// ReduceScatterVInit prepares a ReduceScatterV.
func ReduceScatterVInit[T Element](c *Comm, send, recv []T, counts []int, op Op) (*Persistent, error) {
	a := new(comm.Args).Vary(c.inner(), plan.ReduceScatter, counts, 1)
	return persistent(c, reduceArgs(a, c, plan.ReduceScatter, -1, send, recv, op))
}

// GatherVInit prepares a GatherV.
func GatherVInit[T any](c *Comm, send, recv []T, counts []int, root int) (*Persistent, error) {
	a := new(comm.Args).VaryAt(c.inner(), plan.Gather, root, counts, unitOf[T]())
	return persistent(c, argsOf(a, c, plan.Gather, root, send, recv))
}

// ScatterVInit prepares a ScatterV.
func ScatterVInit[T any](c *Comm, send, recv []T, counts []int, root int) (*Persistent, error) {
	a := new(comm.Args).VaryAt(c.inner(), plan.Scatter, root, counts, unitOf[T]())
	return persistent(c, argsOf(a, c, plan.Scatter, root, send, recv))
}

// AllToAllVInit prepares an AllToAllV.
func AllToAllVInit[T any](c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int) (*Persistent, error) {
	return persistent(c, allToAllV(new(comm.Args), c, send, sendCounts, recv, recvCounts))
}
