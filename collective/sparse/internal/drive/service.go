package drive

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/omni"
)

// Service is an aggregator that is no rank: it serves one call of the ranks after the
// other, and learns from them what each is. It is Done when all ranks have closed
// their ends.
type Service struct {
	*Omni
	calls callers
}

// NewService makes the aggregator of this rank. aggs are the trees of all
// aggregators, streams how many of them may be under way.
func NewService(k *Links, aggs []int, streams int) *Service {
	o := NewOmni(k, aggs)
	limit := omni.Limit{Workers: k.workers, Aggregators: len(aggs), Streams: streams, Packet: k.ep.MaxPayload()}
	s := &Service{Omni: o, calls: newCallers(k, aggs[o.own], limit)}
	o.heard = s.calls.heard
	return s
}

// Done reports whether no rank can want anything any more.
func (s *Service) Done() bool { return s.calls.done() }

// Idle reports that no call is under way.
func (s *Service) Idle() bool { return !s.calls.busy }

// Poll moves what can be moved now.
func (s *Service) Poll() (moved bool, err error) {
	if moved, err = s.calls.listen(s.begin); err != nil || !s.calls.busy {
		return moved, err
	}
	if len(s.unsent) > 0 {
		did, err := s.sendResult()
		if err != nil {
			return moved, err
		}
		moved = moved || did
	}
	did, err := s.aggregate()
	if err != nil {
		return moved, err
	}
	if s.calls.left == 0 && s.agg.Done() && len(s.unsent) == 0 {
		s.calls.over()
		return true, nil // the next call may be there
	}
	return moved || did, nil
}

// WaitsFor says what is missing.
func (s *Service) WaitsFor() string {
	if len(s.unsent) > 0 {
		return fmt.Sprintf("rank %d to take a result", s.calls.star[s.unsent[0]].rank)
	}
	if who := s.calls.waitsFor(); who != "" {
		return who
	}
	return "blocks of workers"
}
