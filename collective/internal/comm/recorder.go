package comm

import (
	"math/bits"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
)

// recorder records the calls of a communicator for the launcher, and reports them to an observer of the program. It
// takes part in each step of the tally. Where neither is wanted there is none.
type recorder struct {
	c       *Comm
	to      *record.Writer    // nil: only the observer wants calls
	observe func(setup.Event) // nil: there is none
	comm    record.Name
	epoch   int64 // the time of epoch

	// Calls since the cell last got its share: atomic additions would take long for small calls.
	cell         *record.Cell
	row, size    int
	calls, bytes int64
	timed        int // calls with a time
	sum          struct{ took, waited, predicted, bound, least time.Duration }

	now struct { // the call that has claimed the communicator
		row, bytes int
		counted    bool // it begins here
		begun      bool // it only begins
		seq        uint64
		of         priced
		plan       *planner.ChosenPlan // nil: it has none
	}
	last struct { // the latest call with a plan: most calls are like the one before
		of        priced
		plan      *planner.ChosenPlan
		label     record.Name
		predicted time.Duration
		bound     time.Duration
	}
	labels    map[*planner.ChosenPlan]record.Name
	predicted map[priced]time.Duration
	scale     map[priced]priced // by the number of bits of bytes: a call of that size that has a prediction
	bounds    map[priced]float64
}

// priced is what the predicted time of a call follows from.
type priced struct {
	kind        plan.Kind
	root, bytes int
}

// maxPredicted is the number of lengths for which a call's time is predicted. Times of others follow from these.
const maxPredicted = 128

// newRecorder returns the recorder of c, nil for none.
func newRecorder(c *Comm) *recorder {
	r := &recorder{c: c, to: c.Waiter.Watch.Record(), observe: c.Setup.Config.Observe}
	if r.to == nil && r.observe == nil {
		return nil
	}
	r.forget()
	r.labels, r.bounds = make(map[*planner.ChosenPlan]record.Name), make(map[priced]float64)
	if r.to != nil {
		r.comm, r.epoch = r.to.Name(c.Name), r.to.Time(epoch)
		r.setPlanner()
	}
	return r
}

// setPlanner has the launcher know the planner of the calls of all ranks: rank 0 writes it.
func (r *recorder) setPlanner() {
	if p := r.c.Plans.Planner; r.to != nil && r.c.Rank == 0 && r.c.Name == setup.FirstName && p != nil {
		r.to.SetPlanner(p.Portable())
	}
}

// forget forgets the predictions: there are other plans.
func (r *recorder) forget() {
	if r != nil {
		r.predicted, r.scale = make(map[priced]time.Duration), make(map[priced]priced)
		r.last.plan = nil
	}
}

// enter notes that a call, or the wait for one, has claimed the communicator.
func (r *recorder) enter(row, bytes int) {
	n := &r.now
	n.row, n.bytes, n.counted, n.begun, n.seq, n.plan = row, bytes, false, false, 0, nil
}

// planned notes the plan of a call.
func (r *recorder) planned(seq uint64, p *planner.ChosenPlan, kind plan.Kind, root, bytes int) {
	n := &r.now
	n.seq, n.plan, n.of = seq, p, priced{kind, root, bytes}
}

// count counts a call that has begun.
func (r *recorder) count(row, bytes int) {
	if row == r.now.row { // else it is a part of a SendRecv
		r.now.counted, r.now.bytes = true, bytes
	}
	if r.to == nil {
		return
	}
	r.use(row, bytes)
	r.calls++
	r.bytes += int64(bytes)
}

// flush gives the cell its share.
func (r *recorder) flush() {
	if r == nil || r.calls == 0 && r.timed == 0 {
		return
	}
	r.cell.Count(r.calls, r.bytes, record.Bus(r.row, int(r.bytes), r.c.Size))
	if s := &r.sum; r.timed > 0 {
		r.cell.Spend(s.took, s.waited, s.predicted, s.bound)
		if s.least > 0 {
			r.cell.Best(s.least)
		}
		*s, r.timed = struct{ took, waited, predicted, bound, least time.Duration }{}, 0
	}
	r.calls, r.bytes = 0, 0
}

// use makes the cell that of calls of a sort and length.
func (r *recorder) use(row, bytes int) {
	if size := bits.Len64(uint64(bytes)); r.cell == nil || row != r.row || size != r.size {
		r.flush()
		r.cell, r.row, r.size = r.to.Cell(row, bytes), row, size
	}
}

// The cell gets its share at the end of a call that took long, and after some short ones.
const (
	longCall   = 50 * time.Microsecond
	shortCalls = 16
)

// waited adds a wait within a call that is not timed.
func (r *recorder) waited(d time.Duration) {
	if r.to != nil {
		r.to.Cell(r.now.row, r.now.bytes).Spend(0, d, 0, 0)
	}
}

// end takes in the end of a call that began then, counted from epoch.
func (r *recorder) end(began, took, waited time.Duration, weight int64) {
	n := &r.now
	if r.to != nil {
		e := record.Event{Kind: record.Call, Row: uint8(n.row), Comm: r.comm, Peer: -1,
			Start: r.epoch + int64(began), Took: took, Bytes: int64(n.bytes), Number: n.seq, Waited: waited}
		var bound time.Duration
		if l := &r.last; n.counted && n.plan != nil {
			if l.plan != n.plan || l.of != n.of {
				l.of, l.plan, l.label, l.predicted, l.bound = n.of, n.plan, r.label(n.plan), r.predict(), r.bound()
			}
			e.Label, e.Predicted, bound = l.label, l.predicted, l.bound
		}
		if weight > 1 {
			e.Flags |= record.Sampled
		}
		if n.begun {
			e.Flags |= record.Begun
		}
		if !n.counted {
			e.Flags |= record.Resumed
		}
		if r.c.failure.err != nil {
			e.Flags |= record.Failed
		}
		r.to.Put(&e)
		r.use(n.row, n.bytes)
		s, w := &r.sum, time.Duration(weight)
		s.took, s.waited, s.predicted, s.bound = s.took+w*took, s.waited+waited, s.predicted+w*e.Predicted, s.bound+w*bound
		if e.Flags&^record.Sampled == 0 && (s.least == 0 || took < s.least) {
			s.least = took
		}
		if r.timed++; r.timed >= shortCalls || took >= longCall || weight > 1 {
			r.flush()
		}
	}
	if r.observe != nil {
		r.report(took, waited)
	}
}

// report reports a call to the observer.
func (r *recorder) report(took, waited time.Duration) {
	n := &r.now
	e := setup.Event{Comm: r.c.Name, Call: status.RowNames[n.row], Number: n.seq, Bytes: int64(n.bytes), Took: took,
		Waited: waited, Begun: n.begun, Resumed: !n.counted}
	if n.plan != nil {
		e.Algorithm = n.plan.Name()
	}
	if r.c.failure.err != nil {
		e.Err = r.c.failure.err
	}
	returned := false
	defer func() {
		why := recover()
		if returned {
			return
		}
		r.c.Links.Abort(engine.Panicked(r.c.Rank, e.Call, "the observer", why))
		if why == nil { // nothing below returns to End
			r.c.claim.state.Store(unclaimed)
		}
	}()
	r.observe(e)
	returned = true
}

// label returns the number of the name of a plan.
func (r *recorder) label(p *planner.ChosenPlan) record.Name {
	n, known := r.labels[p]
	if !known {
		n = r.to.Name(p.Name())
		r.labels[p] = n
	}
	return n
}

// predict returns the predicted time of the call, 0 where it is not known.
func (r *recorder) predict() time.Duration {
	of := r.now.of
	if t, known := r.predicted[of]; known {
		return t
	}
	class := of
	class.bytes = bits.Len64(uint64(of.bytes))
	if len(r.predicted) >= maxPredicted {
		like, known := r.scale[class]
		if !known || like.bytes == 0 {
			return 0
		}
		return time.Duration(float64(r.predicted[like]) * float64(of.bytes) / float64(like.bytes))
	}
	t, err := r.c.Setup.Predict(of.kind, of.root, of.bytes)
	if err != nil {
		t = 0
	}
	r.predicted[of], r.scale[class] = t, of
	return t
}

// bound returns the time of the call at the highest rate that any plan could reach; 0 where it is not known, for small
// calls, and on all ranks but the first: one is enough.
func (r *recorder) bound() time.Duration {
	of := r.now.of
	if r.c.Rank != 0 || of.bytes < timedBytes {
		return 0
	}
	of.bytes = 0
	rate, known := r.bounds[of]
	if !known {
		rate = r.c.Setup.Bound(of.kind, of.root)
		r.bounds[of] = rate
	}
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(r.now.of.bytes) / rate)
}
