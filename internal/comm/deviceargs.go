package comm

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/internal/kernel"
)

// DeviceArgs is a device call that has been checked and not begun.
type DeviceArgs struct {
	Args
	stream  *cuda.Stream
	In, Out device.Buffer
}

// Set is Args.Set for a device call, which also checks stream and buffers.
func (k *DeviceArgs) Set(c *Comm, kind plan.Kind, t kernel.DType, s *cuda.Stream, root, count int, in,
	out device.Buffer) *DeviceArgs {
	k.device = true
	k.Args.Set(c, kind, root, count, t, nil, nil)
	k.stream, k.In, k.Out = s, in, out
	if k.Err != nil {
		return k
	}
	if s == nil || s.Device() == nil {
		k.Refuse(c, "no stream")
		return k
	}
	if err := s.Check(); err != nil {
		k.Refuse(c, "%w", err)
		return k
	}
	for _, b := range []device.Buffer{in, out} {
		if err := b.Problem(s); err != nil {
			k.Refuse(c, "%w", err)
		}
	}
	return k
}

// Reducing is Args.Reducing.
func (k *DeviceArgs) Reducing(c *Comm, op kernel.Op) *DeviceArgs {
	k.Args.Reducing(c, op)
	if op == kernel.Avg && k.Out.Name != "" {
		k.Divide = c.Size
	}
	return k
}

// Separate is Args.Separate.
func (k *DeviceArgs) Separate(c *Comm) *DeviceArgs {
	if k.Err == nil && device.OverlapOf(k.In, k.Out) == setup.Partial {
		k.Refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return k
}

// SeparateParts is Args.SeparateParts.
func (k *DeviceArgs) SeparateParts(c *Comm, part, whole device.Buffer) *DeviceArgs {
	if k.Err != nil || device.OverlapOf(part, whole) == setup.Apart {
		return k
	}
	if device.OverlapOf(part, whole.Part(c.Rank, part.Bytes)) != setup.InPlace {
		k.Refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.Rank)
	}
	return k
}
