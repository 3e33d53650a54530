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

// pump is the one goroutine that a network has. It sends and receives while the owners of the links do not, and does
// the periodic work: status frames to the peers, and faults.
type pump struct {
	n      *network
	turns  atomic.Uint64 // how often the owners polled the sockets
	stop   atomic.Bool
	urgent atomic.Bool // the latest calls are due to all peers at once
	ended  chan struct{}

	kicked  chan struct{} // ends a sleep of the pump while the owner is active
	polling atomic.Bool   // the pump waits, or is about to, in a system call

	event osys.Event // ends such a wait

	timer *time.Timer
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
	for _, c := range p.n.all() { // the pump waits for all sockets, with nothing left to send
		c.flush(nil)
		c.awaitRoom()
	}
	for _, e := range p.n.endpoints() {
		e.reporting.Lock()
		e.sendStatus()
		e.reporting.Unlock()
	}
	p.polling.Store(true)
	select {
	case <-p.kicked: // sent before polling was set, so without the event
	default:
		osys.Poll(p.event.FD(), p.n.poller, limit)
	}
	p.polling.Store(false)
	p.event.Drain()
}

func (p *pump) run() {
	defer close(p.ended)
	every := cmp.Or(p.n.cfg.every, statusInterval)
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
		active = t != turns
		turns = t
		for _, c := range p.n.all() {
			c.flush(nil)
			c.receive(nil)
			c.answerStale()
		}
		now = time.Now()
		due := p.urgent.Swap(false)
		if !now.Before(next) {
			due, next = true, now.Add(every)
		}
		again = time.Time{}
		for _, e := range p.n.endpoints() {
			active = active || e.bell.sleeping()
			if tick := e.news(now, due); again.IsZero() || !tick.IsZero() && tick.Before(again) {
				again = tick
			}
		}
	}
}

// news sends new reports of faults and, when they are due, the latest calls to all peers. It returns the time of the
// next call that it needs, zero if none.
func (e *Endpoint) news(now time.Time, calls bool) (again time.Time) {
	e.reporting.Lock()
	defer e.reporting.Unlock()
	if e.left {
		return again
	}
	if calls {
		e.sendStatus()
	}
	e.Aborted() // forwards reports of the host's ranks, and decisions
	again = e.faults.tick(now)
	e.sendReports()
	return again
}

// sendStatus sends the latest calls of this rank to all peers, if they are new. reporting is held: the notice that this
// rank has closed follows the last of them.
func (e *Endpoint) sendStatus() {
	if e.left {
		return
	}
	latest := e.local.Status(e.cfg.Rank).Call.Seq
	if e.sentCall.Swap(latest) == latest {
		return
	}
	var calls record
	for back := remembered - 1; back >= 0; back-- {
		if h, ok := e.local.CallBefore(e.cfg.Rank, back); ok {
			calls = append(calls, h)
		}
	}
	e.tell(kindStatus, strict.Marshal(calls))
}

// tell sends a control frame to all peers.
func (e *Endpoint) tell(k kind, body []byte) {
	for _, p := range e.all() {
		p.conn.control(e.number, k, body, e.closed.Load())
	}
}

// sendReports sends new reports to all peers.
func (e *Endpoint) sendReports() {
	for _, r := range e.faults.takeUnsent() {
		e.tell(kindFault, strict.Marshal(&r))
		for _, p := range e.all() {
			if r.Decided && p.conn.err.Load() != nil {
				_ = osys.EndSending(p.conn.fd) // a peer that is still there need not wait for more
			}
		}
		e.bell.Ring()
	}
}

// resend makes the pump send everything once more, soon, for peers that have received nothing.
func (e *Endpoint) resend() {
	e.faults.resend()
	e.sentCall.Store(0)
	e.net.pump.urgent.Store(true)
}
