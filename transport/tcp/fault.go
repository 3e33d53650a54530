package tcp

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/transport"
)

// decideAfter is how long a rank waits for the decision which fault is the first before it decides by itself. It is far
// below the time that a launcher gives ranks after a failure.
const decideAfter = 100 * time.Millisecond

// faults elects one of the faults that ranks report, the same on every rank as far as messages arrive. A rank that has
// a fault to report sends it to all its peers. The lowest rank that seems to be well, and is not reported lost, decides
// for the first report that it receives, and sends the decision to all its peers; if no decision arrives in time, each
// rank takes the report of the lowest rank that sent one. Every rank forwards reports that are new to it, so that ranks
// without a connection receive them too.
type faults struct {
	e       *Endpoint
	elected atomic.Pointer[transport.Fault]

	mu      sync.Mutex
	reports []report  // one of each rank, and finally the decided one
	since   time.Time // when the first report was added
	sent    int       // how many of them the pump has sent to all peers
}

// propose makes f this rank's report, unless there is one already. It never blocks.
func (e *Endpoint) propose(f transport.Fault) {
	e.faults.receive(report{By: e.cfg.Rank, Fault: f.Fit(e.cfg.Layout.Size)})
}

// receive adds the report of a rank. It never blocks.
func (s *faults) receive(r report) {
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
		s.e.net.pump.kick()
	}
}

// add adds a report, and reports whether it is the first of that rank. mu is held.
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

// decide makes the fault of r the fault of the set, which has none yet. mu is held.
func (s *faults) decide(r report) {
	r.Decided = true
	s.reports = append(s.reports, r)
	s.elected.Store(&r.Fault)
}

// tick decides if no decision has arrived for too long. It returns the time of the next call that it needs, zero if
// none.
func (s *faults) tick(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.elected.Load() != nil || len(s.reports) == 0 {
		return time.Time{}
	}
	if s.e.decides(&s.reports[0].Fault) { // as the ranks below this one have failed
		s.decide(s.reports[0])
		return time.Time{}
	}
	if due := s.since.Add(decideAfter); now.Before(due) {
		return now.Add(min(turnEvery, due.Sub(now))) // more ranks may be known to be gone by then
	}
	s.decide(slices.MinFunc(s.reports, func(a, b report) int { return a.By - b.By }))
	return time.Time{}
}

// resend makes the pump send all reports once more, for new peers.
func (s *faults) resend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = 0
}

// takeUnsent returns the reports that are still to be sent, and marks them as sent.
func (s *faults) takeUnsent() []report {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.reports[s.sent:]
	s.sent = len(s.reports)
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

// Aborted returns the fault of the set. It forwards reports of the host's ranks to other hosts, and decisions to the
// host.
func (e *Endpoint) Aborted() (transport.Fault, bool) {
	if f, ok := e.local.Aborted(); ok {
		e.propose(f)
	}
	decided := e.faults.elected.Load()
	if decided != nil {
		e.local.Decide(*decided)
	}
	if first, ok := e.local.Decided(); ok {
		if decided == nil { // by a rank of this host, which may have ended before it sent it to other hosts
			e.faults.receive(report{By: e.cfg.Rank, Decided: true, Fault: first})
		}
		return first, true
	}
	if decided != nil { // of a closed endpoint, to whose host nothing is written any more
		return *decided, true
	}
	return transport.Fault{}, false
}

// decides reports whether this rank is the one to decide for a report of f. A rank without connections decides only
// after decideAfter: other ranks may learn of the fault in another way.
func (e *Endpoint) decides(f *transport.Fault) bool {
	if len(e.all()) == 0 {
		return false
	}
	for r := range e.cfg.Rank {
		if lost := r == f.Rank && f.Kind == transport.FaultLost; !lost && !e.hasLeft(r) {
			return false
		}
	}
	return true
}

// hasLeft reports whether rank r has ended or has closed its endpoint, as far as the World, the memory of this host or
// the connection with it shows.
func (e *Endpoint) hasLeft(r int) bool {
	if e.cfg.gone(r) {
		return true
	}
	if e.SameHost(r) {
		return e.local.Status(r).Closed
	}
	p := e.peers[r].Load()
	return p != nil && (p.closed.Load() || p.ended() != nil)
}

// gone reports whether rank r has ended, as far as the World knows.
func (cfg *Config) gone(r int) bool { return cfg.Gone != nil && cfg.Gone(r) }
