package collective

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

func bufferOf[T Number](name string, s cuda.Slice[T]) buffer {
	return buffer{name, s.Device(), s.Addr(), s.Len(), s.Bytes(), s.Check()}
}

func setDevice[T Number](c *Comm, kind plan.Kind, s *cuda.Stream, root, count int, in, out buffer) *deviceArgs {
	return new(deviceArgs).set(c.inside, kind, dtypeOf[T](), s, root, count, in, out)
}

func deviceAllReduce[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op) *deviceArgs {
	k := setDevice[T](c, plan.AllReduce, s, -1, recv.Len(), bufferOf("send", send),
		bufferOf("recv", recv))
	k.sameLength(c.inside, send.Len(), recv.Len())
	return k.reducing(c.inside, kernel.Op(op)).separate(c.inside)
}

func deviceReduce[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op, root int) *deviceArgs {
	var out buffer
	if c.rank == root {
		out = bufferOf("recv", recv)
	}
	k := setDevice[T](c, plan.Reduce, s, root, send.Len(), bufferOf("send", send), out)
	if c.rank == root {
		k.sameLength(c.inside, send.Len(), recv.Len())
	}
	return k.reducing(c.inside, kernel.Op(op)).separate(c.inside)
}

func deviceBroadcast[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], root int) *deviceArgs {
	var in buffer
	if c.rank == root {
		in = bufferOf("send", send)
	}
	k := setDevice[T](c, plan.Broadcast, s, root, recv.Len(), in, bufferOf("recv", recv))
	if c.rank == root {
		k.sameLength(c.inside, send.Len(), recv.Len())
	}
	return k.separate(c.inside)
}

func deviceAllGather[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T]) *deviceArgs {
	k := setDevice[T](c, plan.AllGather, s, -1, send.Len(), bufferOf("send", send),
		bufferOf("recv", recv))
	k.parts(c.inside, "recv", recv.Len(), send.Len())
	return k.separateParts(c.inside, k.in, k.out)
}

func deviceReduceScatter[T Number](c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op) *deviceArgs {
	k := setDevice[T](c, plan.ReduceScatter, s, -1, recv.Len(), bufferOf("send", send),
		bufferOf("recv", recv))
	k.parts(c.inside, "send", send.Len(), recv.Len())
	return k.reducing(c.inside, kernel.Op(op)).separateParts(c.inside, k.out, k.in)
}

func preMultipliedOnDevice[T Number](k *deviceArgs, factor T) *deviceArgs {
	preMultiplied(&k.args, factor)
	return k
}
