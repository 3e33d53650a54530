package tcp

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/transport/internal/osys"
)

const (
	// turnEvery is how often the pump looks whether the owner of the links still
	// does the sending and receiving. A rank that is in no call any more is so
	// rid of it after at most twice this time.
	turnEvery = 5 * time.Millisecond
	// tellEvery is how often others are told what this rank is in.
	tellEvery = 100 * time.Millisecond
)

// pump is the one goroutine that an Endpoint has. It sends and receives while
// the owner of the links does not, and does what has its time: news for the
// others, and faults.
type pump struct {
	e      *Endpoint
	turns  atomic.Uint64 // how often the owner looked at sockets
	stop   atomic.Bool
	urgent atomic.Bool // the others are to hear of the latest call at once
	ended  chan struct{}

	kicked  chan struct{} // ends a wait of a busy owner's pump
	polling atomic.Bool   // the pump waits, or will, in a system call

	event osys.Event // ends such a wait

	timer *time.Timer
	told  atomic.Uint64 // number of the latest call that the others know of
}

// kick has the pump look around at once. It never blocks.
func (p *pump) kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
	if p.polling.Load() {
		p.event.Signal()
	}
}

// sleep waits for a kick, or until max has passed. It is no system call: the Go
// runtime looks after goroutines in those every 20 us for a while, which costs
// more than all else that the pump does.
func (p *pump) sleep(max time.Duration) {
	p.timer.Reset(max)
	select {
	case <-p.kicked:
		p.timer.Stop()
	case <-p.timer.C:
	}
}

// watch waits for a kick, for something that comes, for room where there was
// none, or until max has passed.
func (p *pump) watch(max time.Duration) {
	for _, c := range p.e.all() { // the pump waits for all sockets, with nothing left to tell
		c.flush()
		c.awaitRoom()
	}
	p.tell()
	p.polling.Store(true)
	select {
	case <-p.kicked: // before anybody knew of the event
	default:
		osys.Poll(p.event.FD(), p.e.bell.poller, max)
	}
	p.polling.Store(false)
	p.event.Drain()
}

func (p *pump) run() {
	defer close(p.ended)
	e := p.e
	every := cmp.Or(e.cfg.every, tellEvery)
	turns := p.turns.Load()
	next := time.Now().Add(every)
	again := time.Time{} // something else has its time
	for active := true; !p.stop.Load(); {
		now := time.Now()
		wait := next.Sub(now)
		if !again.IsZero() {
			wait = min(wait, again.Sub(now))
		}
		if active {
			p.sleep(max(0, min(wait, turnEvery)))
		} else {
			p.watch(max(wait, 0))
		}

		t := p.turns.Load()
		active = t != turns || e.bell.sleeping()
		turns = t
		news := false
		for _, c := range e.all() {
			news = c.flush() || news
			news = c.receive() || news
		}
		if news {
			e.bell.Ring()
		}
		if p.urgent.Swap(false) {
			p.tell()
		}
		now = time.Now()
		e.Aborted() // passes on what the host's ranks report, and what is decided
		again = e.faults.tick(now)
		p.report()
		if !now.Before(next) {
			p.tell()
			next = now.Add(every)
		}
	}
}

// tell sends the latest calls of this rank to everybody, if they are news.
func (p *pump) tell() {
	latest := p.e.local.Status(p.e.cfg.Rank).Call.Seq
	if p.told.Swap(latest) == latest {
		return
	}
	var calls record
	for back := remembered - 1; back >= 0; back-- {
		if h, ok := p.e.local.CallBefore(p.e.cfg.Rank, back); ok {
			calls = append(calls, h)
		}
	}
	body := strict.Marshal(calls)
	for _, c := range p.e.all() {
		c.control(kindStatus, body)
	}
}

// report tells everybody of the reports that are new.
func (p *pump) report() {
	for _, r := range p.e.faults.take() {
		body := strict.Marshal(&r)
		for _, c := range p.e.all() {
			c.control(kindFault, body)
			if r.Decided && c.err.Load() != nil {
				_ = osys.EndSending(c.fd) // whoever is still there need not wait for more
			}
		}
		p.e.bell.Ring()
	}
}

// news tells everybody of reports, and of the latest calls.
func (p *pump) news() {
	p.report()
	p.tell()
}

// again is news of all that there was, for who has heard of none: by the pump, before long.
func (p *pump) again() {
	p.e.faults.again()
	p.told.Store(0)
	p.urgent.Store(true)
}
