package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/topo/network"
)

// NetworkConfig is one host's part in a measurement between hosts. One rank of
// each host takes part.
type NetworkConfig struct {
	Host, Hosts int
	Turns       []network.Turn
	Effort      network.Effort
	Conn        func(host int) net.Conn // to every host that network.Meets; nothing else is under way on it
	Name        func(host int) string   // for errors
	Timeout     time.Duration           // without any news from a host

	// Ample is the rate of a flow, in GB/s, that a sample looks for: a slower flow is measured again, and the quickest
	// counts. If that is slower, too, no more flows are measured. 0: this is no sample.
	Ample float64
}

// Network measures the flows that this host receives from others, and the latency of small messages to those behind it.
// One rank of every host calls it, at the same time and with the same turns; all their findings together are the
// argument of network.Infer. Between turns all wait for each other.
//
// A flow lasts a fixed time: some milliseconds that fill the pipe and empty token buckets, which do not count, then the
// part that does. The receiver grants bytes as they arrive, so that no more than some milliseconds of them are under
// way on a slow link.
//
// After an error the caller closes the connections, which ends the others' calls; no part of the measurement is of use.
func Network(ctx context.Context, cfg NetworkConfig) (*network.Findings, error) {
	found := &network.Findings{}
	if len(cfg.Turns) == 0 {
		return found, nil
	}
	h := &netHost{ctx: ctx, cfg: cfg, lines: make([]*line, cfg.Hosts), payload: payload()}
	meets := network.Meets(cfg.Turns)
	for peer := range cfg.Hosts {
		if meets(cfg.Host, peer) {
			h.lines[peer] = newLine(cfg.Host, peer, cfg.Name(peer), cfg.Conn(peer))
		}
	}
	defer context.AfterFunc(ctx, h.stop)()
	if err := h.turns(found); err != nil {
		h.stop()
		return nil, errors.Join(ctx.Err(), err)
	}
	_ = h.deadline(time.Time{}) // it worked a moment ago; the next use of the connection sees an error
	return found, nil
}

// netHost is a host in a measurement.
type netHost struct {
	ctx     context.Context
	cfg     NetworkConfig
	lines   []*line // by host; nil: no connection
	payload []byte
	flows   int    // turns of flows
	known   shared // by all hosts
}

// sampleTries is the number of times a flow of a sample is measured where it is slower than only memory is: any other
// work of the machine's cores slows down a flow, and not the next time.
const sampleTries = 8

// turns takes part in all turns, and returns when all hosts have come to their end. A sample ends with the first flow
// that something limits.
func (h *netHost) turns(found *network.Findings) error {
	for _, t := range h.cfg.Turns {
		if !t.Trips {
			h.flows++
		}
	}
	err, ample := h.barrier(0), int64(h.cfg.Ample*1e9)
	for _, t := range h.cfg.Turns {
		slow := true
		for try := 0; err == nil && slow && try < sampleTries; try++ {
			h.known.Least = 0
			if err = h.turn(t, found); err == nil {
				err = h.barrier(t.Number + 1)
			}
			slow = !t.Trips && h.known.Least < ample
		}
		if slow {
			break
		}
	}
	return err
}

// stop ends all waits for connections. A closed one does not wait either.
func (h *netHost) stop() { _ = h.deadline(time.Unix(1, 0)) }

// deadline sets the deadline of all connections.
func (h *netHost) deadline(until time.Time) (err error) {
	for _, l := range h.lines {
		if l != nil {
			err = errors.Join(err, l.conn.SetDeadline(until))
		}
	}
	return err
}

// allow lets all connections be silent for d. If ctx ends meanwhile, stop's deadline replaces this one, or allow
// returns the error of ctx.
func (h *netHost) allow(d time.Duration) error {
	if err := h.deadline(time.Now().Add(d)); err != nil {
		return fmt.Errorf("probe: host %d: setting a deadline: %w", h.cfg.Host, err)
	}
	return h.ctx.Err()
}

// barrier returns when all hosts have come to a turn, and known is then the combined knowledge of all of them. Host 0
// combines it, through a tree.
func (h *netHost) barrier(turn int) error {
	if err := h.allow(h.cfg.Timeout); err != nil {
		return err
	}
	self := h.cfg.Host
	below := h.lines[min(2*self+1, len(h.lines)):min(2*self+3, len(h.lines))]
	for _, l := range below {
		if err := h.receiveKnown(l, turn); err != nil {
			return err
		}
	}
	if self > 0 {
		above := h.lines[network.Above(self)]
		if err := above.sendSync(turn, h.known); err != nil {
			return err
		}
		if err := h.receiveKnown(above, turn); err != nil {
			return err
		}
	}
	for _, l := range below {
		if err := l.sendSync(turn, h.known); err != nil {
			return err
		}
	}
	return nil
}

// receiveKnown receives the knowledge of another host that comes to a turn.
func (h *netHost) receiveKnown(l *line, turn int) error {
	other, err := l.receiveSync(turn)
	h.known.join(other)
	return err
}

// turn takes part in a turn, to which all hosts have come.
func (h *netHost) turn(t network.Turn, found *network.Findings) error {
	if t.Trips {
		return h.trips(t, found)
	}
	p := paceOf(h.cfg.Effort, h.known, h.flows)
	if h.cfg.Ample > 0 {
		p = pace{h.known.Trip, sampleWarmUp, sampleTime / parts}
	}
	if err := h.allow(h.cfg.Timeout + p.total()); err != nil {
		return err
	}
	begin := time.Now()
	var all sync.WaitGroup
	errs := make([]error, len(t.Flows))
	got := make([]*network.Flow, len(t.Flows))
	for i, f := range t.Flows {
		sharers := 0
		for _, other := range t.Flows {
			if other[0] == f[0] || other[1] == f[1] {
				sharers++
			}
		}
		switch h.cfg.Host {
		case f[0]:
			all.Go(func() {
				errs[i] = h.lines[f[1]].pour(h.payload, begin.Add(p.total()), minWindow/sharers)
			})
		case f[1]:
			all.Go(func() {
				got[i], errs[i] = h.lines[f[0]].drain(begin, p, minWindow/sharers)
			})
		}
	}
	all.Wait()
	for i, w := range got {
		if w != nil {
			w.Turn, w.Src, w.Dst = t.Number, t.Flows[i][0], t.Flows[i][1]
			rate := int64(w.Middle() * 1e9)
			h.known.join(shared{Rate: rate, Least: max(rate, 1)})
			last := len(found.Flows) - 1
			if again := h.cfg.Ample > 0 && last >= 0 && found.Flows[last].Turn == t.Number; !again {
				found.Flows = append(found.Flows, *w)
			} else if found.Flows[last].Middle() < w.Middle() {
				found.Flows[last] = *w
			}
		}
	}
	return errors.Join(errs...)
}

// trips takes part in a turn of small messages.
func (h *netHost) trips(t network.Turn, found *network.Findings) error {
	for _, p := range t.Flows {
		switch h.cfg.Host {
		case p[0]:
			trip, err := h.lines[p[1]].ping()
			if err != nil {
				return err
			}
			h.known.Trip = max(h.known.Trip, trip)
			found.Trips = append(found.Trips, network.Trip{A: p[0], B: p[1], Us: max(float64(trip)/2e3, 0.001)})
		case p[1]:
			if err := h.lines[p[0]].answer(); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace is the duration of a flow.
type pace struct {
	trip  time.Duration
	warm  time.Duration // does not count
	slice time.Duration
}

const (
	parts     = 8
	warmUp    = 8 * time.Millisecond
	quickTime = 20 * time.Millisecond  // that counts
	fullTime  = 120 * time.Millisecond // that counts, in few turns
	fullTotal = 8 * time.Second        // of all turns
	maxTrips  = 300 * time.Millisecond // added for long ways
	quickMost = 48e6                   // bytes of a flow
	fullMost  = 4 * quickMost
	minTime   = 0.35 // of all these times, however quick the network is

	sampleWarmUp = 2 * time.Millisecond // of the flows of a sample
	sampleTime   = 4 * time.Millisecond
)

// paceOf is the pace of the given number of turns between hosts with this knowledge of each other: the pipe must fill,
// and be full for a while. Where flows are quick it lasts less, so that a flow has about as many bytes at most.
func paceOf(e network.Effort, known shared, turns int) pace {
	counts, most := quickTime, quickMost
	if e == network.Full {
		counts = min(max(quickTime, fullTotal/time.Duration(turns)-2*warmUp), fullTime)
		most = fullMost
	}
	part := 1.0
	if bytes := float64(known.Rate) * (counts + warmUp).Seconds(); bytes > most {
		part = max(most/bytes, minTime)
	}
	times := func(d time.Duration) time.Duration { return time.Duration(part * float64(d)) }
	return pace{
		trip:  known.Trip,
		warm:  times(warmUp) + min(8*known.Trip, maxTrips),
		slice: (times(counts) + min(4*known.Trip, maxTrips)) / parts,
	}
}

func (p pace) total() time.Duration { return p.warm + parts*p.slice }

// fail makes the error of a step with the line's peer.
func (l *line) fail(step string, err error) error {
	err = netconn.Stalled(netconn.Jumbo(l.conn), err)
	return fmt.Errorf("probe: host %d with host %d (%s): %s: %w", l.host, l.peer, l.name, step, err)
}
