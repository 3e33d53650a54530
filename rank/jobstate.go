package rank

import "sync"

// jobState is what this rank knows about how the job is going. All its methods may
// be called concurrently.
type jobState struct {
	self   int
	failed chan struct{} // closed with the first failure

	mu      sync.Mutex
	changed chan struct{}  // closed and replaced whenever the rest changes
	failure *Error         // the first one
	broken  *Error         // why AllGather brokenAt and later ones cannot complete
	left    map[int]uint64 // ranks that have closed, and how many AllGathers they had completed
	ended   map[int]bool   // ranks that the launcher saw end in good order
	closing bool           // this rank's Close has begun

	brokenAt uint64
}

func newJobState(self int) *jobState {
	return &jobState{
		self: self, failed: make(chan struct{}), changed: make(chan struct{}),
		left: map[int]uint64{}, ended: map[int]bool{},
	}
}

// change lets everybody who waits look again. The caller holds mu.
func (f *jobState) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail notes that rank has failed. It says whether that is the first failure.
func (f *jobState) fail(rank int, what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil || f.closing {
		return false
	}
	f.failure = &Error{Self: f.self, Rank: rank, Err: failure{what}}
	close(f.failed)
	f.change()
	return true
}

// leave notes that rank has closed after completing done AllGathers. It says
// whether that is news.
func (f *jobState) leave(rank int, done uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.left[rank]; known {
		return false
	}
	f.left[rank] = done
	f.change()
	return true
}

// hasLeft says whether rank has closed.
func (f *jobState) hasLeft(rank int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, left := f.left[rank]
	return left
}

// end notes that the launcher saw rank end after closing in good order; hasEnded
// tells it.
func (f *jobState) end(rank int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[rank] = true
}

func (f *jobState) hasEnded(rank int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[rank]
}

// breakOff notes that AllGather number and later ones cannot complete, because
// of rank. It says whether that is news.
func (f *jobState) breakOff(rank int, number uint64, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil || f.closing {
		return false
	}
	f.broken, f.brokenAt = &Error{Self: f.self, Rank: rank, Err: err}, number
	f.change()
	return true
}

// isBroken says whether some AllGather cannot complete.
func (f *jobState) isBroken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken != nil
}

// close notes that this rank closes. It says whether it did not before.
func (f *jobState) close() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return false
	}
	f.closing = true
	f.change()
	return true
}

// news returns a channel that is closed at the next change, and why the
// operation op, which needs AllGather number, cannot complete: nil while it
// can.
func (f *jobState) news(op string, number uint64) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closing:
		return f.changed, &Error{Self: f.self, Rank: -1, Op: op, Err: ErrClosed}
	case f.failure != nil:
		return f.changed, &Error{Self: f.self, Rank: f.failure.Rank, Op: op, Err: f.failure.Err}
	case f.broken != nil && number >= f.brokenAt:
		return f.changed, &Error{Self: f.self, Rank: f.broken.Rank, Op: op, Err: f.broken.Err}
	}
	first := -1
	for rank, done := range f.left {
		if done <= number && (first < 0 || rank < first) {
			first = rank
		}
	}
	switch {
	case first >= 0 && f.broken != nil: // a later AllGather's end is why it has closed
		return f.changed, &Error{Self: f.self, Rank: f.broken.Rank, Op: op, Err: f.broken.Err}
	case first >= 0:
		return f.changed, &Error{Self: f.self, Rank: first, Op: op, Err: ErrPeerClosed}
	}
	return f.changed, nil
}

// troubles returns notices of what went wrong, for ranks that may not know it.
func (f *jobState) troubles() []*frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*frame
	if f.failure != nil && f.failure.Rank >= 0 {
		list = append(list, notice(failedFrame, f.failure.Rank, 0, f.failure.Err.Error()))
	}
	if f.broken != nil {
		list = append(list, brokenNotice(f.broken.Rank, f.brokenAt, f.broken.Err))
	}
	return list
}

// first returns the first failure, or nil.
func (f *jobState) first() *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}
