package comm

import (
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/status"
)

// tally counts the calls of a communicator by sort. The goroutine that has claimed the communicator counts; any
// goroutine may read.
type tally struct {
	calls  atomic.Pointer[status.Calls]
	rec    *recorder // nil: there is none
	weight int64
	began  time.Duration
	waited time.Duration // the time waited by Waiter.Watch when a call last ended
}

// Of calls of one sort the first, and those of many bytes, are timed. Of the others every sampleEvery-th stands for
// all: reading the clock takes a tenth of the time of a small call. It is a prime, so that steps of a program do not
// meet the same one of their calls again and again.
const (
	timedFirst  = 32
	timedBytes  = 32 << 10
	sampleEvery = 251
)

var epoch = time.Now()

// enter sets the sort of the call that has claimed the communicator. Calls entered within it are part of it.
func (t *tally) enter(which, bytes int) bool {
	calls := t.calls.Load()
	if calls.Now != 0 {
		return false
	}
	calls.Now, t.weight = int32(which)+1, 1
	if t.rec != nil {
		t.rec.enter(which, bytes)
	}
	switch r := &calls.Rows[which]; {
	case t.rec != nil && t.rec.observe != nil:
	case bytes >= timedBytes || r.Calls < timedFirst:
	case r.Untimed > 0:
		r.Untimed--
		t.weight = 0
		return true
	default:
		t.weight, r.Untimed = sampleEvery, sampleEvery-1
	}
	t.began = time.Since(epoch)
	return true
}

// count counts a call that has begun.
func (t *tally) count(which, bytes int) {
	r := &t.calls.Load().Rows[which]
	status.Add(&r.Calls, 1)
	status.Add(&r.Bytes, bytes)
	if t.rec != nil {
		t.rec.count(which, bytes)
	}
}

// leave ends the call that enter began. waited is for how long the communicator has waited so far.
func (t *tally) leave(waited time.Duration) {
	since := waited - t.waited
	if calls := t.calls.Load(); calls.Now != 0 {
		r := &calls.Rows[calls.Now-1]
		r.Waited.Add(int64(since))
		if t.weight > 0 {
			took := time.Since(epoch) - t.began
			r.Moving.Add(t.weight * int64(max(0, took-since)))
			if t.rec != nil {
				t.rec.end(t.began, took, since, t.weight)
			}
		} else if t.rec != nil {
			t.rec.waited(since)
		}
	}
	t.waited, t.weight = waited, 0
}

// detach takes the counters out of the memory that other processes see. No call will be made any more.
func (t *tally) detach() {
	t.rec.flush()
	shown, own := t.calls.Load(), new(status.Calls)
	for i := range own.Rows {
		from, to := &shown.Rows[i], &own.Rows[i]
		to.Calls, to.Bytes = from.Calls, from.Bytes
		to.Moving.Store(from.Moving.Load())
		to.Waited.Store(from.Waited.Load())
	}
	t.calls.Store(own)
}

// Stats calls each with the statistics of the calls of each sort; sorts without calls are left out.
func (t *tally) Stats(each func(name string, calls, bytes int64, taken, waited time.Duration)) {
	all := t.calls.Load()
	for i := range all.Rows {
		r := &all.Rows[i]
		calls, waited := atomic.LoadInt64(&r.Calls), time.Duration(r.Waited.Load())
		if calls == 0 {
			continue
		}
		each(status.RowNames[i], calls, atomic.LoadInt64(&r.Bytes), waited+time.Duration(r.Moving.Load()), waited)
	}
}
