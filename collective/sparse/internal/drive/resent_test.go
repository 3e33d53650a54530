package drive

import (
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/sparse/block"
	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/collective/sparse/sparsetest"
	"github.com/treerun/treerun/transport/datagram"
)

// fill leaves no room in a socket, for good.
func fill(t *testing.T, s *datagram.Socket, to int) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for s.Room() > 0 {
		s.Send(to, []byte{0})
	}
}

// What was to be sent again but had no room was not sent: neither packets of the worker
// nor results of the aggregator count then.
func TestResentIsWhatWasSent(t *testing.T) {
	const streams = 3
	c := newCluster(t, 2, 1, 1, time.Minute)
	x := sparsetest.New(2, block.Grid{Elements: 8 * streams, Size: 8, Width: 4}, kernel.Sum, kernel.Float32)
	for r := range x.Sets {
		x.Sets[r].AddRun(0, streams)
	}
	in, out := x.Buffers(false)
	for r, o := range c.ranks {
		if err := o.Begin(1, c.shapeOf(x, streams, 1), omni.Input{Blocks: x.Sets[r], Send: in[r], Recv: out[r], Fill: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := o.send(); err != nil {
			t.Fatal(err)
		}
	}
	aggregator, worker := c.ranks[0], c.ranks[1]
	count := func(what string, o *Lossy, wantResent, wantSent int64) {
		t.Helper()
		if o.Resent != wantResent || o.SentMessages != wantSent {
			t.Errorf("%s: %d sent again of %d sent, want %d of %d", what, o.Resent, o.SentMessages, wantResent, wantSent)
		}
	}
	count("a worker's first packets", worker, 0, streams)
	worker.now += int64(time.Hour)
	worker.again()
	count("a worker that got no answer", worker, streams, 2*streams)
	fill(t, c.socks[1], 0)
	worker.now += int64(time.Hour)
	worker.again()
	count("a worker without room", worker, streams, 2*streams)

	packet := make([]byte, datagram.MaxPayload)
	packet = packet[:worker.worker.Compose(0, packet)]
	deliver := func() {
		t.Helper()
		if err := aggregator.handle(packet, 1); err != nil {
			t.Fatal(err)
		}
	}
	deliver()
	count("an aggregator's first result", aggregator, 0, 1)
	deliver()
	count("an aggregator that is asked once more", aggregator, 1, 2)
	fill(t, c.socks[0], 1)
	deliver()
	count("an aggregator without room", aggregator, 1, 2)
	if len(aggregator.unsent) != 1 {
		t.Errorf("the result is to be sent to %v, when there is room", aggregator.unsent)
	}
}
