package tcp

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/transport/internal/osys"
)

const (
	// turnEvery is how often the pump checks whether the owner of the links still does the sending and receiving.
	// The pump takes it over from a rank that is in no call any more after at most twice this time.
	turnEvery = 5 * time.Millisecond
	// statusInterval is how often the latest calls are sent to the peers.
	statusInterval = 100 * time.Millisecond
)

// pump is the one goroutine that an Endpoint has. It sends and receives while the owner of the links does not, and does
// the periodic work: status frames to the peers, and faults.
type pump struct {
	e      *Endpoint
	turns  atomic.Uint64 // how often the owner polled the sockets
	stop   atomic.Bool
	urgent atomic.Bool // the latest call is due to all peers at once
	ended  chan struct{}

	kicked  chan struct{} // ends a sleep of the pump while the owner is active
	polling atomic.Bool   // the pump waits, or is about to, in a system call

	event osys.Event // ends such a wait

	timer    *time.Timer
	sentCall atomic.Uint64 // number of the latest call that was sent to the peers
}

// kick wakes the pump at once. It never blocks.
func (p *pump) kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
	if p.polling.Load() {
		p.event.Signal()
	}
}

// sleep waits for a kick, or until limit has passed. It is not a system call: the Go runtime checks goroutines in
// system calls every 20 us for a while, which costs more than everything else that the pump does.
func (p *pump) sleep(limit time.Duration) {
	p.timer.Reset(limit)
	select {
	case <-p.kicked:
		p.timer.Stop()
	case <-p.timer.C:
	}
}

// watch waits for a kick, for incoming bytes, for room where there was none, or until limit has passed.
func (p *pump) watch(limit time.Duration) {
	for _, c := range p.e.all() { // the pump waits for all sockets, with nothing left to send
		c.flush()
		c.awaitRoom()
	}
	p.sendStatus()
	p.polling.Store(true)
	select {
	case <-p.kicked: // sent before polling was set, so without the event
	default:
		osys.Poll(p.event.FD(), p.e.bell.poller, limit)
	}
	p.polling.Store(false)
	p.event.Drain()
}

func (p *pump) run() {
	defer close(p.ended)
	e := p.e
	every := cmp.Or(e.cfg.every, statusInterval)
	turns := p.turns.Load()
	next := time.Now().Add(every)
	again := time.Time{} // when tick is due
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
			p.sendStatus()
		}
		now = time.Now()
		e.Aborted() // forwards reports of the host's ranks, and decisions
		again = e.faults.tick(now)
		p.sendReports()
		if !now.Before(next) {
			p.sendStatus()
			next = now.Add(every)
		}
	}
}

// sendStatus sends the latest calls of this rank to all peers, if they are new.
func (p *pump) sendStatus() {
	latest := p.e.local.Status(p.e.cfg.Rank).Call.Seq
	if p.sentCall.Swap(latest) == latest {
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

// sendReports sends new reports to all peers.
func (p *pump) sendReports() {
	for _, r := range p.e.faults.takeUnsent() {
		body := strict.Marshal(&r)
		for _, c := range p.e.all() {
			c.control(kindFault, body)
			if r.Decided && c.err.Load() != nil {
				_ = osys.EndSending(c.fd) // a peer that is still there need not wait for more
			}
		}
		p.e.bell.Ring()
	}
}

// sendNews sends new reports and the latest calls to all peers.
func (p *pump) sendNews() {
	p.sendReports()
	p.sendStatus()
}

// resend makes the pump send everything once more, soon, for peers that have received nothing.
func (p *pump) resend() {
	p.e.faults.resend()
	p.sentCall.Store(0)
	p.urgent.Store(true)
}
