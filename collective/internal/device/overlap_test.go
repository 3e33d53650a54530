//go:build cgo && linux

package device

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// stuckSender is a network that takes nothing until it is free.
type stuckSender struct {
	transport.Sender
	free atomic.Bool
}

func (s *stuckSender) TryReserve(n int) ([]byte, bool, error) {
	if !s.free.Load() {
		return nil, false, nil
	}
	return s.Sender.TryReserve(n)
}

// TestOverlap: between hosts the device continues with further chunks, up to the number of slots, while one is sent.
func TestOverlap(t *testing.T) {
	const slots, bytes, chunks = 4, 4096, 8
	plans := []*plan.Plan{mustPlan(t)(plan.Direct(plan.Broadcast, 2, 0, plan.Single))}
	m := start(t, plans, how{slots: slots, slotBytes: bytes, hosts: func(r int) int { return r }})
	g := m.groups[0]
	link := g.proxy.out.links[0]
	stuck := &stuckSender{Sender: g.proxy.ends[link].sender}
	g.proxy.ends[link].sender = stuck
	streams := make([]*cuda.Stream, 2)
	m.each(func(r int) error {
		s, err := m.devices[r].NewStream()
		streams[r] = s
		return err
	})
	var calls []Call
	for r := range streams {
		x, err := cuda.Alloc[uint8](m.devices[r], chunks*bytes)
		m.must(err)
		m.free = append(m.free, x.Free)
		calls = append(calls, Call{In: x.Addr(), Out: x.Addr(), Work: kernel.Work{DType: kernel.Uint8},
			Header: call.Header{Seq: 1, Count: chunks * bytes}, Chunks: plan.Chunks{Max: bytes}})
		m.must(m.groups[r].Enqueue(0, streams[r], &calls[r]))
	}
	filled, _ := g.links.flag(link, published)
	for began := time.Now(); filled.Load() < slots; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d chunks are there to be sent while the first one is not, want %d", filled.Load(), slots)
		}
	}
	if sent, _ := g.links.flag(link, released); sent.Load() != 0 || filled.Load() != slots {
		t.Errorf("%d chunks are sent, %d are there", sent.Load(), filled.Load())
	}
	stuck.free.Store(true)
	m.each(func(r int) error { return streams[r].Synchronize(t.Context()) })
	for _, s := range streams {
		m.must(s.Close())
	}
	m.close()
}
