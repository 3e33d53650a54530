package rank

import "sync"

// jobState is what this rank knows about how the job is going: the notices that were
// news. All its methods may be called concurrently.
type jobState struct {
	self   int
	failed chan struct{} // closed with the first failure

	mu      sync.Mutex
	changed chan struct{}  // closed and replaced whenever the rest changes
	failure *frame         // the first one
	broken  *frame         // why its AllGather and later ones cannot complete
	left    map[int]uint64 // ranks that have closed, and how many AllGathers they had completed
	ended   map[int]bool   // ranks that the launcher saw end in good order
	closing bool           // this rank's Close has begun
}

func newJobState(self int) *jobState {
	return &jobState{
		self: self, failed: make(chan struct{}), changed: make(chan struct{}),
		left: map[int]uint64{}, ended: map[int]bool{},
	}
}

// change lets everybody who waits look again. The caller holds mu.
func (s *jobState) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// take notes what a notice says, and says whether it is news: that a rank has closed, or the
// first failure, or the first reason why AllGathers cannot complete.
func (s *jobState) take(f *frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, left := s.left[f.rank]
	switch {
	case f.kind == leftFrame && !left:
		s.left[f.rank] = f.number
	case f.kind == failedFrame && s.failure == nil && !s.closing:
		s.failure = f
		close(s.failed)
	case (f.kind == brokenFrame || f.kind == stalledFrame) && s.broken == nil && !s.closing:
		s.broken = f
	default:
		return false
	}
	s.change()
	return true
}

// fail notes that rank has failed, -1 the launcher.
func (s *jobState) fail(rank int, what string) bool {
	return s.take(notice(failedFrame, rank, 0, told{what, ErrFailed}))
}

// close notes that this rank closes: what happens from now on is no news.
func (s *jobState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing = true
		s.change()
	}
}

// hasLeft says whether rank has closed.
func (s *jobState) hasLeft(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, left := s.left[rank]
	return left
}

// end notes that the launcher saw rank end after closing in good order; hasEnded
// tells it.
func (s *jobState) end(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[rank] = true
}

func (s *jobState) hasEnded(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[rank]
}

// troubles returns the notices of what went wrong: the first failure, and why AllGathers
// cannot complete; nil where there is none.
func (s *jobState) troubles() (failure, broken *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure, s.broken
}

// isBroken says whether some AllGather cannot complete.
func (s *jobState) isBroken() bool {
	_, broken := s.troubles()
	return broken != nil
}

// first returns the first failure, or nil.
func (s *jobState) first() *Error {
	failure, _ := s.troubles()
	if failure == nil {
		return nil
	}
	return &Error{Self: s.self, Rank: failure.rank, Err: failure.why()}
}

// news returns a channel that is closed at the next change, and why the
// operation op, which needs AllGather number, cannot complete: nil while it
// can.
func (s *jobState) news(op string, number uint64) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := -1 // the first rank that has closed and would be needed
	for rank, done := range s.left {
		if done <= number && (gone < 0 || rank < gone) {
			gone = rank
		}
	}
	rank, err := -1, error(nil)
	switch {
	case s.closing:
		err = ErrClosed
	case s.failure != nil:
		rank, err = s.failure.rank, s.failure.why()
	case s.broken != nil && (number >= s.broken.number || gone >= 0): // a later AllGather's end is why it has closed
		rank, err = s.broken.rank, s.broken.why()
	case gone >= 0:
		rank, err = gone, ErrPeerClosed
	default:
		return s.changed, nil
	}
	return s.changed, &Error{Self: s.self, Rank: rank, Op: op, Err: err}
}
