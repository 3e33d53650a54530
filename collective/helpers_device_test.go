//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/rank"
)

// member is this process as a rank of a job: see asProcesses.
var member *rank.World

// asProcesses runs the test that calls it once more as n ranks, processes of a job of
// treerun on a fake host with GPUs. It reports whether this process is one of them.
func asProcesses(t *testing.T, n int, graph string, env ...string) bool {
	t.Helper()
	return asRanks(t, fakegpu.Job{Hosts: []string{graph}, Ranks: n, Env: env})
}

func asRanks(t *testing.T, j fakegpu.Job) bool {
	t.Helper()
	if !j.Run(t) {
		return false
	}
	w, err := rank.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	member = w
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return true
}

// gpuOf returns the GPU of a rank, rank modulo the number of GPUs.
func gpuOf(rank int) (*cuda.Device, error) {
	all, err := cuda.Devices()
	if err != nil {
		return nil, err
	}
	return all[rank%len(all)], nil
}

// onDevice runs body on this rank, with a stream on its GPU, and compares the device resources of the process before
// and after. In the end the rank reports no wait.
func onDevice(t *testing.T, body func(c *Comm, s *cuda.Stream) error, opts ...Option) error {
	t.Helper()
	before := cuda.Stats()
	c, err := New(t.Context(), member, append([]Option{WithTopoCache("")}, opts...)...)
	if err != nil {
		return err
	}
	dev, err := gpuOf(member.Rank())
	if err != nil {
		return err
	}
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	err = body(c, s)
	err = errors.Join(err, c.Close(), s.Close())
	after := cuda.Stats()
	before.Contexts, after.Contexts = 0, 0 // they stay
	if after != before {
		t.Errorf("rank %d: left on the devices: %+v, before %+v", member.Rank(), after, before)
	}
	for _, w := range member.Waits().Status(t.Context(), member.Rank()).Waits {
		if w.GaveUp == 0 {
			t.Errorf("rank %d still reports the wait %+v", member.Rank(), w)
		}
	}
	return err
}

func mustRunOnDevice(t *testing.T, body func(c *Comm, s *cuda.Stream) error, opts ...Option) {
	t.Helper()
	if err := onDevice(t, body, opts...); err != nil {
		t.Errorf("rank %d of %d: %v", member.Rank(), member.Size(), err)
	}
}

// onDevice makes the call of t on device memory, including the guards, and copies the results back.
func (t *collectiveTrial[T]) onDevice(ctx context.Context, s *cuda.Stream) (err error) {
	var mem []cuda.Slice[T]
	for _, m := range t.mem {
		d, err := cuda.Alloc[T](s.Device(), len(m.all))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Free()) }()
		if err := d.CopyFrom(ctx, s, m.all); err != nil {
			return err
		}
		mem = append(mem, d)
	}
	in, out := mem[0], mem[len(mem)-1]
	from, to := guard, guard
	if t.inPlace && len(mem) == 1 {
		from, to = guard+shift(t.send, t.mem[0].body), guard+shift(t.recv, t.mem[0].body)
	}
	send, recv := in.Slice(from, from+len(t.send)), out.Slice(to, to+len(t.recv))
	if err := t.callOnDevice(ctx, s, send, recv); err != nil {
		return err
	}
	if err := t.c.SyncDevice(ctx, s); err != nil {
		return err
	}
	for i, m := range t.mem {
		if err := mem[i].CopyTo(ctx, s, m.all); err != nil {
			return err
		}
	}
	return nil
}

// shift returns the offset of part in whole, from their capacities.
func shift[T Element](part, whole []T) int { return cap(whole) - cap(part) }

func (t *collectiveTrial[T]) callOnDevice(ctx context.Context, s *cuda.Stream, send, recv cuda.Slice[T]) error {
	c := t.c
	switch f := t.k.of(factorOf(c.in.Rank)); {
	case t.kind == plan.AllReduce && t.premul:
		return AllReducePreMulDevice(ctx, c, s, send, recv, f)
	case t.kind == plan.Reduce && t.premul:
		return ReducePreMulDevice(ctx, c, s, send, recv, f, t.root)
	case t.kind == plan.ReduceScatter && t.premul:
		return ReduceScatterPreMulDevice(ctx, c, s, send, recv, f)
	}
	switch t.kind {
	case plan.AllReduce:
		return AllReduceDevice(ctx, c, s, send, recv, t.op)
	case plan.Reduce:
		return ReduceDevice(ctx, c, s, send, recv, t.op, t.root)
	case plan.Broadcast:
		return BroadcastDevice(ctx, c, s, send, recv, t.root)
	case plan.AllGather:
		return AllGatherDevice(ctx, c, s, send, recv)
	case plan.ReduceScatter:
		return ReduceScatterDevice(ctx, c, s, send, recv, t.op)
	case plan.AllToAll:
		return AllToAllDevice(ctx, c, s, send, recv)
	case plan.Gather:
		return GatherDevice(ctx, c, s, send, recv, t.root)
	case plan.Scatter:
		return ScatterDevice(ctx, c, s, send, recv, t.root)
	}
	return BarrierDevice(ctx, c, s)
}

// noPeers describes a machine whose GPUs cannot read each other's memory.
var noPeers = []string{"TREERUN_FAKE_GPU_NO_PEERS=1"}

// slowReads describes a machine whose GPUs, on PCIe, read each other's memory at half the rate of writes.
var slowReads = []string{"TREERUN_FAKE_GPU_NO_NVLINK=1", "TREERUN_FAKE_GPU_SLOW=80:2"}

// patienceOnDevice is the time that ranks may take to detect a fault, on a machine that is busy with other work as
// well.
const patienceOnDevice = time.Minute

// onTwoHosts reports whether this process is one of two ranks with a host each.
func onTwoHosts(t *testing.T) bool {
	t.Helper()
	return asRanks(t, fakegpu.Job{Hosts: []string{"dgx1v/0", "dgx1v/1"}, Ranks: 1})
}

// relayed runs body on this rank, one of two on two hosts, after a first call that opens the devices.
func relayed(t *testing.T, body func(c *Comm, s *cuda.Stream) error) {
	t.Helper()
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		if err := errors.Join(BarrierDevice(t.Context(), c, s), c.SyncDevice(t.Context(), s)); err != nil {
			return err
		}
		if len(c.in.Links.Opened) == 0 {
			return errors.New("nothing is relayed")
		}
		return body(c, s)
	})
}

// closed closes a communicator that has failed, and accepts known as the error of Close.
func closed(c *Comm, known error) error {
	if err := c.Close(); err != nil && !errors.Is(err, known) {
		return err
	}
	return nil
}
