package exchange

import (
	"context"
	"maps"
	"sync"
)

// state is this rank's knowledge of the job's progress: the notices that were news. All its methods may be called
// concurrently.
type state struct {
	failed chan struct{} // closed with the first failure

	mu      sync.Mutex
	changed chan struct{}  // closed and replaced whenever the rest changes
	failure *frame         // the first one
	lost    map[int]bool   // ranks that have failed
	broken  *frame         // the reason why its AllGather and later ones cannot complete
	left    map[int]uint64 // ranks that have closed, and how many AllGathers they had completed
	ended   map[int]bool   // ranks that the launcher saw end in good order
	pairs   map[int]string // by rank: the peers that it cannot connect to
	closing bool           // this rank's Close has begun
}

func newState() *state {
	return &state{
		failed: make(chan struct{}), changed: make(chan struct{}),
		lost: map[int]bool{}, left: map[int]uint64{}, ended: map[int]bool{}, pairs: map[int]string{},
	}
}

// change wakes all goroutines that wait for a change. The caller holds mu.
func (s *state) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// record notes a notice, and reports whether it is news: that a rank has failed, has closed, or cannot connect
// to others, or the first reason why AllGathers cannot complete. The first failure is the cause of the others.
func (s *state) record(f *frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, left := s.left[f.rank]
	_, known := s.pairs[f.rank]
	switch {
	case f.kind == pairsFrame && !known:
		s.pairs[f.rank] = f.text
	case f.kind == leftFrame && !left:
		s.left[f.rank] = f.number
	case f.kind == failedFrame && !s.lost[f.rank] && !s.closing:
		s.lost[f.rank] = true
		if s.failure == nil {
			s.failure = f
			close(s.failed)
		}
	case (f.kind == brokenFrame || f.kind == stalledFrame) && s.broken == nil && !s.closing:
		s.broken = f
	default:
		return false
	}
	s.change()
	return true
}

// MarkFailed notes that rank has failed, -1 for the launcher. It does not notify the other ranks.
func (s *state) MarkFailed(rank int, what string) {
	s.record(notice(failedFrame, rank, 0, reported{what, ErrFailed}))
}

// MarkClosing notes that this rank closes: later events are no news.
func (s *state) MarkClosing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing = true
		s.change()
	}
}

// HasLeft reports whether rank has closed.
func (s *state) HasLeft(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, left := s.left[rank]
	return left
}

// Gone reports whether rank has closed, has ended or has failed.
func (s *state) Gone(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, left := s.left[rank]
	return left || s.ended[rank] || s.lost[rank]
}

// MarkEnded notes that the launcher saw rank end after closing in good order; hasEnded reports it.
func (s *state) MarkEnded(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[rank] = true
}

func (s *state) hasEnded(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[rank]
}

// firstNotices returns the notices of the first failure, and of the reason why AllGathers cannot complete; nil where
// there is none.
func (s *state) firstNotices() (failure, broken *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure, s.broken
}

// Pairs returns the reports of ranks on the peers that they cannot connect to, indexed by rank, and a channel that is
// closed at the next change.
func (s *state) Pairs() (map[int]string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pairs), s.changed
}

// IsBroken reports whether some AllGather cannot complete.
func (s *state) IsBroken() bool {
	_, broken := s.firstNotices()
	return broken != nil
}

// Failed returns a channel that is closed with the first failure.
func (s *state) Failed() <-chan struct{} { return s.failed }

// Failure returns the first failure, or nil.
func (s *state) Failure() *Fault {
	if failure, _ := s.firstNotices(); failure != nil {
		return &Fault{failure.rank, failure.err()}
	}
	return nil
}

// gatherFault returns a channel that is closed at the next change, and why AllGather number
// cannot complete: nil while it can.
func (s *state) gatherFault(number uint64) (<-chan struct{}, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := -1 // the first rank that has closed and would be needed
	for rank, done := range s.left {
		if done <= number && (gone < 0 || rank < gone) {
			gone = rank
		}
	}
	switch {
	case s.closing:
		return s.changed, &Fault{-1, ErrClosed}
	case s.failure != nil:
		return s.changed, &Fault{s.failure.rank, s.failure.err()}
	case s.broken != nil && (number >= s.broken.number || gone >= 0): // a later AllGather's end is why it has closed
		return s.changed, &Fault{s.broken.rank, s.broken.err()}
	case gone >= 0:
		return s.changed, &Fault{gone, ErrPeerClosed}
	}
	return s.changed, nil
}

// Watch cancels run with the *Fault because of which AllGather number cannot complete any more.
func (s *state) Watch(run context.Context, cancel context.CancelCauseFunc, number uint64) {
	for {
		changed, why := s.gatherFault(number)
		if why != nil {
			cancel(why)
			return
		}
		select {
		case <-changed:
		case <-run.Done():
			return
		}
	}
}
