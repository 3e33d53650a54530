package collective

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/comm"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/internal/kernel"
)

func setDevice[T Number](c *Comm, kind plan.Kind, s *cuda.Stream, root, count int, in,
	out device.Buffer) *comm.DeviceArgs {
	return new(comm.DeviceArgs).Set(c.in, kind, dtypeOf[T](), s, root, count, in, out)
}

func deviceAllReduce[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op) *comm.DeviceArgs {
	k := setDevice[T](c, plan.AllReduce, s, -1, recv.Len(), device.BufferOf("send", send),
		device.BufferOf("recv", recv))
	k.SameLength(c.in, send.Len(), recv.Len())
	return k.Reducing(c.in, kernel.Op(op)).Separate(c.in)
}

func deviceReduce[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op, root int) *comm.DeviceArgs {
	var out device.Buffer
	if c.in.Rank == root {
		out = device.BufferOf("recv", recv)
	}
	k := setDevice[T](c, plan.Reduce, s, root, send.Len(), device.BufferOf("send", send), out)
	if c.in.Rank == root {
		k.SameLength(c.in, send.Len(), recv.Len())
	}
	return k.Reducing(c.in, kernel.Op(op)).Separate(c.in)
}

func deviceBroadcast[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], root int) *comm.DeviceArgs {
	var in device.Buffer
	if c.in.Rank == root {
		in = device.BufferOf("send", send)
	}
	k := setDevice[T](c, plan.Broadcast, s, root, recv.Len(), in, device.BufferOf("recv", recv))
	if c.in.Rank == root {
		k.SameLength(c.in, send.Len(), recv.Len())
	}
	return k.Separate(c.in)
}

func deviceAllGather[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T]) *comm.DeviceArgs {
	k := setDevice[T](c, plan.AllGather, s, -1, send.Len(), device.BufferOf("send", send),
		device.BufferOf("recv", recv))
	k.Parts(c.in, "recv", recv.Len(), send.Len())
	return k.SeparateParts(c.in, k.In, k.Out)
}

func deviceReduceScatter[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op) *comm.DeviceArgs {
	k := setDevice[T](c, plan.ReduceScatter, s, -1, recv.Len(), device.BufferOf("send", send),
		device.BufferOf("recv", recv))
	k.Parts(c.in, "send", send.Len(), recv.Len())
	return k.Reducing(c.in, kernel.Op(op)).SeparateParts(c.in, k.Out, k.In)
}

func preMultipliedOnDevice[T Number](k *comm.DeviceArgs, factor T) *comm.DeviceArgs {
	preMultiplied(&k.Args, factor)
	return k
}
