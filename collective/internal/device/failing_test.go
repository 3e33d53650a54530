//go:build cgo && linux

package device

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// abortingSender is a link of the network whose rank aborts while a chunk is copied to it.
type abortingSender struct {
	transport.Sender
	g         *Group
	reserved  chan struct{}
	committed atomic.Bool
}

func (s *abortingSender) TryReserve(n int) ([]byte, bool, error) {
	s.g.Abort(errTest)
	close(s.reserved)
	return make([]byte, n), true, nil
}

func (s *abortingSender) Commit(*call.Header) { s.committed.Store(true) }

// A chunk that was published for another host is not sent after an abort: the device may not have written it.
func TestAbortBeforeSend(t *testing.T) {
	plans := []*plan.Plan{mustPlan(t)(plan.Direct(plan.Broadcast, 2, 0, plan.Single))}
	m := start(t, plans, how{slots: 2, slotBytes: 4096, hosts: func(r int) int { return r }})
	g := m.groups[0]
	link := g.proxy.out.links[0]
	sender := &abortingSender{Sender: g.proxy.ends[link].sender, g: g, reserved: make(chan struct{})}
	g.proxy.ends[link].sender = sender
	s, err := m.devices[0].NewStream()
	m.must(err)
	u, err := m.enqueue(0, s, &testCall{count: 100, dtype: kernel.Int32, seq: 1}, 0)
	m.must(err)
	<-sender.reserved
	m.must(m.drained(s))
	m.groups[1].Abort(errTest)
	for _, a := range u.all {
		m.must(a.Free())
	}
	m.must(s.Close())
	m.close() // the proxy has ended
	if sender.committed.Load() {
		t.Error("a void chunk was sent")
	}
}

// failingKernels fail in their second launch. The stream of the first one waits for gate.
type failingKernels struct {
	Kernels
	gate     cuda.MemOp
	launches int
	first    *cuda.Stream
}

func (k *failingKernels) Run(s *cuda.Stream, w *kernel.Work, parts []kernels.Part) error {
	if k.launches++; k.launches == 2 {
		return errTest
	}
	k.first = s
	return errors.Join(k.Kernels.Run(s, w, parts), s.MemOps([]cuda.MemOp{k.gate}))
}

// Where a call cannot be enqueued as a whole, the caller's stream waits for the enqueued part of it.
func TestErrorJoinsStreams(t *testing.T) {
	plans := []*plan.Plan{fromTrees(t, 4, plan.AllReduce, plan.Split)}
	m := start(t, plans, how{slots: 2, slotBytes: 4096})
	gate, err := cuda.AllocPinned[uint32](m.devices[0], 1)
	m.must(err)
	atomic.StoreUint32(&gate.Host()[0], 0)
	k := &failingKernels{Kernels: m.groups[0].executor.kernels,
		gate: cuda.MemOp{Addr: gate.Addr(), Value: 1, Wait: true}}
	m.groups[0].executor.kernels = k
	s, err := m.devices[0].NewStream()
	m.must(err)
	u, err := m.enqueue(0, s, &testCall{count: 50000, dtype: kernel.Int32, op: kernel.Sum, inPlace: true, seq: 1}, 0)
	if !errors.Is(err, errTest) || k.first == s {
		t.Errorf("error %v, the first launch in the caller's stream: %v", err, k.first == s)
	}
	within, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Synchronize(within); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's stream ended before the enqueued work: %v", err)
	}
	atomic.StoreUint32(&gate.Host()[0], 1)
	m.must(m.drained(s))
	for _, a := range u.all {
		m.must(a.Free())
	}
	m.must(errors.Join(s.Close(), gate.Free()))
	m.close()
}
