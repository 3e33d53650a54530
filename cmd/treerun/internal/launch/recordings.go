//go:build linux

package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/record"
)

// recordings collects the recordings of the ranks: all of a process once it has ended. The launcher requests one part
// after the other, so that neither it nor an agent has more of them than it can take. The nil *recordings collects
// nothing. All methods are called by the supervisor's goroutine.
type recordings struct {
	s         *supervisor
	clock     int64 // record.Clock at the start of the job
	asked     map[int]*fetching
	number    int // of the latest request
	answered  time.Time
	processes []*recording.Process
	events    int // of all of them
	clocks    map[*hostState]*hostClock
}

// fetching is a request without an answer yet.
type fetching struct {
	host    *hostState
	process *recording.Process // nil: see done
	sent    int64
	done    func([]wire.Recorded) // nil: the clock is enough
}

// hostClock has the estimates of the clock of another host.
type hostClock struct {
	all    []recording.Clock
	series []recording.Clock // estimates of the comparison under way
	busy   bool
}

const (
	clockSeries = 5                // estimates of one comparison of clocks: the best one counts
	clockEvery  = 30 * time.Second // between two comparisons
	maxClocks   = 1000

	// unfetchedGrace is the time without an answer after which recordings that are still missing are left out.
	unfetchedGrace = 5 * time.Second
)

// newRecordings returns nil where nothing is recorded.
func newRecordings(s *supervisor) *recordings {
	if s.job.Events == 0 {
		return nil
	}
	return &recordings{s: s, clock: record.Clock() - int64(time.Since(s.start)), asked: make(map[int]*fetching),
		clocks: make(map[*hostState]*hostClock)}
}

// request sends a Fetch.
func (c *recordings) request(f *fetching, b wire.Fetch) {
	c.number++
	b.Number, f.sent = c.number, record.Clock()
	c.asked[b.Number] = f
	c.s.orderTo(f.host, &b)
}

// compareClocks begins to compare the clock of another host with that of this one, and does so again and again.
func (c *recordings) compareClocks(h *hostState) {
	if c == nil || h.Local || h.lost {
		return
	}
	k := c.clocks[h]
	if k == nil {
		k = new(hostClock)
		c.clocks[h] = k
	}
	if !k.busy {
		k.busy = true
		c.request(&fetching{host: h}, wire.Fetch{What: wire.FetchClock})
	}
}

// noteClock takes in an estimate.
func (c *recordings) noteClock(h *hostState, sent, remote int64) {
	k, now := c.clocks[h], record.Clock()
	at := (sent + now) / 2
	k.series = append(k.series, recording.Clock{At: at, Offset: remote - at, Error: (now - sent + 1) / 2})
	if len(k.series) < clockSeries {
		c.request(&fetching{host: h}, wire.Fetch{What: wire.FetchClock})
		return
	}
	best := slices.MinFunc(k.series, func(a, b recording.Clock) int { return cmp.Compare(a.Error, b.Error) })
	if len(k.all) == maxClocks {
		k.all = slices.Delete(k.all, 1, 2)
	}
	k.all, k.series, k.busy = append(k.all, best), nil, false
	c.s.after(clockEvery, func() { c.compareClocks(h) })
}

// onEnded requests the recording of a rank that has ended.
func (c *recordings) onEnded(r *rankState) {
	if c == nil {
		return
	}
	p := &recording.Process{Rank: r.Rank, Attempt: r.Attempt, PID: r.PID, Ended: time.Since(c.s.start),
		Outcome: strings.TrimSuffix(r.outcome(), ","), Failed: r.failed() && !r.Stopped, Host: r.host.index}
	c.processes = append(c.processes, p)
	if r.host.lost {
		p.Why = "its host is lost"
		return
	}
	c.request(&fetching{host: r.host, process: p}, wire.Fetch{Rank: r.Rank, Attempt: r.Attempt, From: 1})
}

// live requests the totals of all ranks that run, and returns them with the state of the job. Any goroutine may call
// it.
func (c *recordings) live() (*recording.Live, error) {
	answer := make(chan *recording.Live, 1)
	c.s.post(func() { c.requestTotals(answer) })
	select {
	case l := <-answer:
		return l, nil
	case <-c.s.quit:
		return nil, errors.New("the job is over")
	}
}

// requestTotals sends an answer to live once all hosts have answered, or late.
func (c *recordings) requestTotals(answer chan<- *recording.Live) {
	s := c.s
	l := &recording.Live{ID: s.jobID, Size: len(s.roster), Restarts: c.restarts()}
	for _, r := range s.ranks {
		if r.running && !r.ended {
			l.Alive = append(l.Alive, r.Rank)
		}
	}
	waiting := map[*hostState]int{} // the number of the request
	over := false
	end := func() {
		if over {
			return
		}
		over = true
		for _, p := range c.processes {
			if p.Count > 0 || len(p.Totals) > 0 {
				l.Ended = append(l.Ended, &p.Head)
			}
		}
		for h, number := range waiting {
			l.Silent = append(l.Silent, h.Name)
			delete(c.asked, number)
		}
		answer <- l
	}
	for _, h := range s.hosts {
		if h.lost || h.phase != started {
			continue
		}
		c.request(&fetching{host: h, done: func(parts []wire.Recorded) {
			for _, p := range parts {
				if p.Head != nil && p.Rank < len(s.ranks) && s.ranks[p.Rank].host == h {
					l.Ranks = append(l.Ranks, recording.LiveRank{Rank: p.Rank, Host: h.Name, Head: p.Head})
				}
			}
			if delete(waiting, h); len(waiting) == 0 {
				end()
			}
		}}, wire.Fetch{What: wire.FetchTotals})
		waiting[h] = c.number
	}
	if len(waiting) == 0 {
		end()
		return
	}
	s.after(lookTimeout, end)
}

// restarts returns the number of processes that have replaced others.
func (c *recordings) restarts() (n int) {
	for _, r := range c.s.ranks {
		n += r.Attempt
	}
	return n
}

// receive takes in the answer to a request.
func (c *recordings) receive(h *hostState, b *wire.Fetched) {
	if c == nil || c.asked[b.Number] == nil || c.asked[b.Number].host != h {
		return
	}
	f := c.asked[b.Number]
	delete(c.asked, b.Number)
	c.answered = time.Now()
	switch {
	case f.done != nil:
		f.done(b.Parts)
	case f.process == nil:
		c.noteClock(h, f.sent, b.Clock)
	case len(b.Parts) != 1:
		f.process.Why = "its host has sent another recording"
	default:
		c.add(f, &b.Parts[0])
	}
}

// add adds a part to the recording of a process, and requests the next one.
func (c *recordings) add(f *fetching, part *wire.Recorded) {
	p := f.process
	if part.Head == nil {
		p.Why = part.Why
		return
	}
	events, err := record.Decode(part.Events)
	if err != nil {
		p.Why = fmt.Sprintf("its host has sent %v", err)
		return
	}
	p.Head = *part.Head
	p.Events = append(p.Events, events...)
	c.events += len(events)
	for _, o := range c.processes { // where ranks were started again and again
		if c.events > 2*recording.MaxEvents && o != p && len(o.Events) > 0 {
			c.events -= len(o.Events)
			o.Events, o.Why = nil, "later processes have recorded too many events"
		}
	}
	if part.Next <= p.Count && part.Next > 1 && len(p.Events) <= p.Places {
		c.request(&fetching{host: f.host, process: p}, wire.Fetch{Rank: p.Rank, Attempt: p.Attempt, From: part.Next})
	}
}

// missing reports whether an answer may still come.
func (c *recordings) missing() bool {
	for _, f := range c.asked {
		if !f.host.lost && f.process != nil {
			return true
		}
	}
	return false
}

// recorded waits for the recordings of all ranks, and passes them on.
func (s *supervisor) recorded() error {
	c := s.recordings
	if c == nil || s.job.Recorded == nil {
		return nil
	}
	c.answered = time.Now()
	late := false
	var check func()
	check = func() {
		late = time.Since(c.answered) > unfetchedGrace
		s.after(unfetchedGrace/10, check)
	}
	check()
	s.wait(func() bool { return !c.missing() || late || s.skipOutput })
	for _, f := range c.asked {
		if f.process != nil {
			f.process.Why = "its host " + f.host.Name + " does not answer"
		}
	}
	j := &recording.Job{ID: s.jobID, Program: s.job.Program, Args: s.job.Args, Start: s.start, Clock: c.clock,
		Took: time.Since(s.start), Code: s.exitCode(), Cause: s.causeText()}
	for _, h := range s.hosts {
		host := recording.Host{Name: h.Name}
		if k := c.clocks[h]; k != nil {
			host.Clocks = k.all
		}
		j.Hosts = append(j.Hosts, host)
	}
	for _, p := range c.processes {
		j.Processes = append(j.Processes, *p)
	}
	slices.SortStableFunc(j.Processes, func(a, b recording.Process) int {
		return cmp.Or(a.Rank-b.Rank, a.Attempt-b.Attempt)
	})
	return s.job.Recorded(j)
}
