package comm

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/call"
)

// tally counts the calls of a communicator by sort. The goroutine that has claimed the communicator counts; any
// goroutine may read.
type tally struct {
	rows   [rowsEnd]row
	now    int // 1 + the row of the call that has claimed the communicator; 0: none that counts
	weight int64
	began  time.Duration
	waited time.Duration // the time waited by Waiter.Watch when a call last ended
}

// row is calls of one sort.
type row struct {
	calls, bytes   int64        // see add
	moving, waited atomic.Int64 // nanoseconds
	untimed        int          // calls that are not timed before the next one is
}

// Rows: of kinds by their numbers, the same with functions, and others.
const (
	rowFuncs  = int(call.ExScan) + 1
	rowOthers = 2 * rowFuncs
	rowSplit  = rowOthers + int(call.Split-call.Exchange)
	rowSend   = rowOthers + int(call.AllReduceMaxLoc-call.Exchange) + 1
	rowRecv   = rowSend + 1
	rowProbe  = rowRecv + 1
	rowsEnd   = rowProbe + 1
)

var rowNames = func() (names [rowsEnd]string) {
	for k := call.AllReduce; k <= call.ExScan; k++ {
		names[k], names[rowFuncs+int(k)] = k.String(), k.String()+"Func"
	}
	for k := call.Exchange; k <= call.AllReduceMaxLoc; k++ {
		names[rowOf(&call.ID{Kind: k})] = k.String()
	}
	names[rowSend], names[rowRecv], names[rowProbe] = "Send", "Recv", "Probe"
	return names
}()

// rowOf returns the row of a call.
func rowOf(id *call.ID) int {
	switch {
	case id.Kind >= call.Exchange:
		return rowOthers + int(id.Kind-call.Exchange)
	case id.Func:
		return rowFuncs + int(id.Kind)
	}
	return int(id.Kind)
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
	if t.now != 0 {
		return false
	}
	t.now, t.weight = which+1, 1
	switch r := &t.rows[which]; {
	case bytes >= timedBytes || r.calls < timedFirst:
	case r.untimed > 0:
		r.untimed--
		t.weight = 0
		return true
	default:
		t.weight, r.untimed = sampleEvery, sampleEvery-1
	}
	t.began = time.Since(epoch)
	return true
}

// count counts a call that has begun.
func (t *tally) count(which, bytes int) {
	r := &t.rows[which]
	add(&r.calls, 1)
	add(&r.bytes, bytes)
}

// add adds to a number that the goroutine that has claimed the communicator changes, and others read. By Go's memory
// model a plain store of a word is seen whole; an atomic one would take a tenth of the time of a small call.
func add(number *int64, n int) {
	if underRace || strconv.IntSize < 64 {
		atomic.AddInt64(number, int64(n))
		return
	}
	*number += int64(n)
}

// leave ends the call that enter began. waited is for how long the communicator has waited so far.
func (t *tally) leave(waited time.Duration) {
	since := waited - t.waited
	if t.now != 0 {
		r := &t.rows[t.now-1]
		r.waited.Add(int64(since))
		if t.weight > 0 {
			r.moving.Add(t.weight * int64(max(0, time.Since(epoch)-t.began-since)))
		}
	}
	t.waited, t.weight = waited, 0
}

// Stats calls each with the statistics of the calls of each sort; sorts without calls are left out.
func (t *tally) Stats(each func(name string, calls, bytes int64, taken, waited time.Duration)) {
	for i := range t.rows {
		r := &t.rows[i]
		calls, waited := atomic.LoadInt64(&r.calls), time.Duration(r.waited.Load())
		if calls == 0 {
			continue
		}
		each(rowNames[i], calls, atomic.LoadInt64(&r.bytes), waited+time.Duration(r.moving.Load()), waited)
	}
}
