package comm

import (
	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// DeviceArgs is a device call that has been checked and not begun.
type DeviceArgs struct {
	Args
	stream     *cuda.Stream
	send, recv devices.Buffer
}

// Set is Args.Set for a device call, which also checks stream and buffers.
func (k *DeviceArgs) Set(c *Comm, kind plan.Kind, root int, t kernel.DType, s *cuda.Stream, send,
	recv devices.Buffer) *DeviceArgs {
	k.ID.Kind, k.ID.Device, k.stream = call.Kind(kind), true, s
	gives, gets := roleOf(c.Rank, kind, root)
	if gives {
		k.send = send
	}
	if gets {
		k.recv = recv
	}
	if err := devices.Problem(s, k.send, k.recv); err != nil {
		k.Refuse(c, "%w", err)
	}
	k.Args.Set(c, kind, root, t, send.Span(), recv.Span())
	return k
}
