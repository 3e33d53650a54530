package collective

import (
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// argsOf sets a to a call of a kind, with root -1 if the kind has none, and checks it.
func argsOf[T any](a *comm.Args, c *Comm, kind plan.Kind, root int, send, recv []T) *comm.Args {
	a.In, a.Out = kernel.BytesOf(send), kernel.BytesOf(recv)
	t := dtypeOf[T]()
	if t == 0 {
		a.ID.Kind = calls.Kind(kind)
		a.Refuse(c.inner(), "%s", unmovable[T]())
		t = kernel.Opaque
	}
	if t >= kernel.Opaque {
		return a.SetBytes(c.inner(), kind, root, t, sizeOf[T]())
	}
	return a.SetHost(c.inner(), kind, root, t, len(send), len(recv))
}

// reduceArgs is argsOf for a reduction.
func reduceArgs[T Element](a *comm.Args, c *Comm, kind plan.Kind, root int, send, recv []T, op Op) *comm.Args {
	a.Op = kernel.Op(op)
	return argsOf(a, c, kind, root, send, recv)
}

// deviceArgs is argsOf for a call on device memory.
func deviceArgs[T Element](k *comm.DeviceArgs, c *Comm, kind plan.Kind, root int, s *cuda.Stream, send,
	recv cuda.Slice[T]) *comm.DeviceArgs {
	return k.Set(c.inner(), kind, root, dtypeOf[T](), s, devices.BufferOf("send", send),
		devices.BufferOf("recv", recv))
}

// messageOn describes device memory that is exchanged with a rank.
func messageOn[T Element](name string, data cuda.Slice[T], peer int) *devices.Message {
	return &devices.Message{Buffer: devices.BufferOf(name, data), Peer: peer}
}

// deviceReduceArgs is reduceArgs for a call on device memory.
func deviceReduceArgs[T Element](c *Comm, kind plan.Kind, root int, s *cuda.Stream, send, recv cuda.Slice[T],
	op Op) *comm.DeviceArgs {
	k := new(comm.DeviceArgs)
	k.Op = kernel.Op(op)
	return deviceArgs(k, c, kind, root, s, send, recv)
}

// preMultiplied changes the sum of a: every rank multiplies its input by its factor first.
func preMultiplied[T Element](a *comm.Args, factor T) *comm.Args {
	a.ID.Scaled, a.Scale, a.Factor = true, true, elementOf(factor)
	return a.As(0) // its name has changed
}

func devicePreMul[T Element](k *comm.DeviceArgs, factor T) *comm.DeviceArgs {
	preMultiplied(&k.Args, factor)
	return k
}
