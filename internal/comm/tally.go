package comm

import (
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
)

// tally counts the calls of a communicator by what they are. Whoever has claimed the communicator counts; anybody
// reads.
type tally struct {
	rows   [rowsEnd]row
	now    *row // of the call that has claimed the communicator; nil: none that counts
	weight int64
	began  time.Duration
	waited time.Duration // of Waiter.Watch, when a call last ended
}

// row is calls of one sort.
type row struct {
	calls, bytes   atomic.Int64
	moving, waited atomic.Int64 // nanoseconds
	seen           uint64       // times that it was entered; whoever has claimed the communicator knows
}

// Rows: of kinds by their numbers, calls in order, and others.
const (
	rowInOrder = int(plan.AllToAll) + 1
	rowSplit   = rowInOrder + len(engine.CallsInOrder)
	rowSparse  = rowSplit + 1
	rowSend    = rowSparse + 1
	rowRecv    = rowSend + 1
	rowProbe   = rowRecv + 1
	rowsEnd    = rowProbe + 1
)

var otherRows = [...]string{"Split", "Sparse", "Send", "Recv", "Probe"}

// rowOf returns the row of a call.
func rowOf(kind, as uint8) int {
	switch {
	case as == engine.Splits:
		return rowSplit
	case as == engine.Exchange:
		return rowSparse
	case as >= engine.InOrder:
		return rowInOrder + int(as) - engine.InOrder
	}
	return int(kind &^ (engine.OnDevice | engine.Varied))
}

// Of calls of one sort the first, and those of many bytes, are timed. Of the others every sampleEvery-th stands for
// all: a look at the clock takes as long as a tenth of a small call. It is a prime, so that steps of a program do not
// meet the same one of their calls again and again.
const (
	timedFirst  = 32
	timedBytes  = 32 << 10
	sampleEvery = 61
)

var epoch = time.Now()

// enter says what the call is that has claimed the communicator. What is entered within it is part of it.
func (t *tally) enter(which, bytes int) bool {
	if t.now != nil {
		return false
	}
	r := &t.rows[which]
	t.now = r
	r.seen++
	switch {
	case r.seen <= timedFirst || bytes >= timedBytes:
		t.weight = 1
	case r.seen%sampleEvery == 0:
		t.weight = sampleEvery
	default:
		return true
	}
	t.began = time.Since(epoch)
	return true
}

// count counts a call that has begun.
func (t *tally) count(which, bytes int) {
	t.rows[which].calls.Add(1)
	t.rows[which].bytes.Add(int64(bytes))
}

// leave ends what enter began. waited is for how long the communicator has waited so far.
func (t *tally) leave(waited time.Duration) {
	since := waited - t.waited
	if t.weight > 0 {
		t.now.moving.Add(t.weight * int64(max(0, time.Since(epoch)-t.began-since)))
	}
	if t.now != nil {
		t.now.waited.Add(int64(since))
	}
	t.waited, t.weight = waited, 0
}

// Stats calls each with what is known of the calls of each sort, those of a sort that was not made left out.
func (c *Comm) Stats(each func(name string, calls, bytes int64, taken, waited time.Duration)) {
	for i := range c.tally.rows {
		r := &c.tally.rows[i]
		calls, waited := r.calls.Load(), time.Duration(r.waited.Load())
		if calls == 0 {
			continue
		}
		name := ""
		switch {
		case i < rowInOrder:
			name = engine.CallName(plan.Kind(i))
		case i < rowSplit:
			name = engine.CallsInOrder[i-rowInOrder]
		default:
			name = otherRows[i-rowSplit]
		}
		each(name, calls, r.bytes.Load(), waited+time.Duration(r.moving.Load()), waited)
	}
}
