package tcp

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/transport"
)

// decideAfter is how long a rank waits for the one that decides which fault is
// the first, before it decides by itself.
// It is far below the time that a launcher gives ranks after a failure.
const decideAfter = 100 * time.Millisecond

// faults makes one fault of those that ranks report, the same on every rank as
// far as messages get there. A rank that has a fault to report tells everybody.
// The lowest rank that seems to be well, and is not reported lost, decides for
// the first that it hears of, and tells everybody; where nobody does so in
// time, each takes that of the lowest rank that reported one. Every rank passes
// on what is new to it, so that ranks without a connection hear of it too.
type faults struct {
	e       *Endpoint
	elected atomic.Pointer[transport.Fault]

	mu      sync.Mutex
	reports []report  // one of each rank, and at last the decided one
	since   time.Time // when the first came
	told    int       // how many of them everybody has been told, by the pump
}

// propose makes f this rank's report, unless there is one already. It never blocks.
func (e *Endpoint) propose(f transport.Fault) {
	e.faults.hear(report{By: e.cfg.Rank, Fault: f.Fit(e.cfg.Layout.Size)})
}

// hear takes in what a rank reports. It never blocks.
func (s *faults) hear(r report) {
	s.mu.Lock()
	news := s.elected.Load() == nil
	switch {
	case !news:
	case r.Decided:
		s.decide(r)
	default:
		news = s.add(r)
	}
	s.mu.Unlock()
	if news {
		s.e.pump.kick()
	}
}

// add notes a report, and says whether it is the first of that rank. mu is held.
func (s *faults) add(r report) bool {
	if slices.ContainsFunc(s.reports, func(q report) bool { return q.By == r.By }) {
		return false
	}
	if len(s.reports) == 0 {
		s.since = time.Now()
	}
	s.reports = append(s.reports, r)
	if s.e.decides(&r.Fault) {
		s.decide(r)
	}
	return true
}

// decide makes the fault of r that of the set, which has none. mu is held.
func (s *faults) decide(r report) {
	r.Decided = true
	s.reports = append(s.reports, r)
	s.elected.Store(&r.Fault)
}

// tick decides when nobody else has for too long. It returns when it wants to be
// called again, zero if at no time.
func (s *faults) tick(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.elected.Load() != nil || len(s.reports) == 0 {
		return time.Time{}
	}
	if s.e.decides(&s.reports[0].Fault) { // as those before it have failed
		s.decide(s.reports[0])
		return time.Time{}
	}
	if due := s.since.Add(decideAfter); now.Before(due) {
		return now.Add(min(turnEvery, due.Sub(now))) // more ranks may be known to be gone by then
	}
	s.decide(slices.MinFunc(s.reports, func(a, b report) int { return a.By - b.By }))
	return time.Time{}
}

// again has everybody told once more, for who is new among them.
func (s *faults) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = 0
}

// take returns the reports that are to be told.
func (s *faults) take() []report {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.reports[s.told:]
	s.told = len(s.reports)
	return news
}

// Abort reports f, and returns when the set has a fault: this one, or one that
// was reported earlier or at the same time.
func (e *Endpoint) Abort(f transport.Fault) {
	e.local.Abort(f)
	for _, ok := e.Aborted(); !ok && !e.closed.Load(); _, ok = e.Aborted() {
		time.Sleep(time.Millisecond)
	}
}

// Aborted returns the fault of the set. It passes on what the host's ranks report, and
// what is decided.
func (e *Endpoint) Aborted() (transport.Fault, bool) {
	if f, ok := e.local.Aborted(); ok {
		e.propose(f)
	}
	decided := e.faults.elected.Load()
	if decided != nil {
		e.local.Decide(*decided)
	}
	if first, ok := e.local.Decided(); ok {
		if decided == nil { // by a rank of this host, which may have ended before it told those of others
			e.faults.hear(report{By: e.cfg.Rank, Decided: true, Fault: first})
		}
		return first, true
	}
	if decided != nil { // of a closed endpoint, to which nothing is written any more
		return *decided, true
	}
	return transport.Fault{}, false
}

// decides reports whether this rank is the one to decide for a report of f. One that
// has no connections decides after decideAfter only: others may hear of it on another way.
func (e *Endpoint) decides(f *transport.Fault) bool {
	if len(e.all()) == 0 {
		return false
	}
	for r := range e.cfg.Rank {
		if lost := r == f.Rank && f.Kind == transport.FaultLost; !lost && !e.gone(r) {
			return false
		}
	}
	return true
}

// gone reports whether rank r has ended or has closed its endpoint, as far as the World, the memory of this host or the
// connection with it shows.
func (e *Endpoint) gone(r int) bool {
	if e.ended(r) {
		return true
	}
	if e.near(r) {
		return e.local.Status(r).Closed
	}
	p := e.peers[r].Load()
	return p != nil && (p.left() || p.ended() != nil)
}

// ended reports whether rank r has ended, as far as the World knows.
func (e *Endpoint) ended(r int) bool { return e.cfg.Gone != nil && e.cfg.Gone(r) }
