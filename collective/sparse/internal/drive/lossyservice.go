package drive

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/datagram"
)

// LossyService is a Service for Algorithm 2: an aggregator that is no rank and gets
// its packets over datagrams. The links tell it of calls, and when a worker has all
// results of one. While no call is under way it leaves datagrams where they are, so
// those that overtake their call are not lost.
type LossyService struct {
	*Lossy
	calls callers
}

// NewLossyService makes the aggregator of this rank. aggs are the trees of all
// aggregators, streams how many of them may be under way. sock reaches the ranks.
func NewLossyService(k *Links, aggs []int, sock *datagram.Socket, streams int) *LossyService {
	o := NewLossy(k, aggs, sock, 0)
	limit := omni.Limit{Workers: k.workers, Aggregators: len(aggs), Streams: streams, Packet: datagram.MaxPayload}
	return &LossyService{Lossy: o, calls: newCallers(k, aggs[o.own], limit, true)}
}

// Done reports whether no rank can want anything any more.
func (s *LossyService) Done() bool { return s.calls.done() }

// Idle reports that no call is under way.
func (s *LossyService) Idle() bool { return !s.calls.busy }

// Poll moves what can be moved now.
func (s *LossyService) Poll() (moved bool, err error) {
	if moved, err = s.calls.listen(s.begin); err != nil || !s.calls.busy {
		return moved, err
	}
	s.tick()
	if s.agg.Done() {
		// Before datagrams, which may be of the next call already.
		seen, err := s.seeOff(s.calls.heard)
		if err != nil {
			return moved, err
		}
		if s.leaves == 0 {
			s.sock.Flush()
			s.calls.over()
			return true, nil
		}
		moved = moved || seen
	}
	err = s.takeIn()
	s.sock.Flush()
	return moved || s.progress, err
}

// Sleep waits for a datagram, or for longest. The bell is prepared.
func (s *LossyService) Sleep(bell transport.Bell, longest time.Duration) error {
	if s.agg.Done() {
		bell.Sleep(min(longest, servingNap))
		return nil
	}
	bell.Cancel()
	return s.await(longest, s.calls.heard)
}

// WaitsFor says what is missing.
func (s *LossyService) WaitsFor() string {
	if who := s.calls.waitsFor(); who != "" {
		return who
	}
	if s.agg.Done() {
		return s.waitsForWorker()
	}
	return fmt.Sprintf("blocks of workers, over UDP (%d results were sent again)", s.Resent)
}
