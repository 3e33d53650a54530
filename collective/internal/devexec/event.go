package devexec

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
)

// eventSignals are for devices that cannot wait for memory. What a device does is
// marked by an event that the other rank's stream waits for; that only works once
// it has been recorded, which the counters of the link say. So the host waits,
// but for other hosts, not for devices: everything an event stands for was
// enqueued before it, and cannot wait for what comes later.
type eventSignals struct {
	g    *Group
	own  []*cuda.Event   // by link: published of those this rank sends on, released of those it receives on
	peer []*cuda.Event   // by link: the other end's
	ring [][]*cuda.Event // by relayed link: one per slot, as the relay has to know each
}

func newEventSignals(g *Group) (*eventSignals, error) {
	n := len(g.links)
	e := &eventSignals{g: g, own: make([]*cuda.Event, n), peer: make([]*cuda.Event, n), ring: make([][]*cuda.Event, n)}
	for i := range g.layout.links {
		k := &g.layout.links[i]
		switch {
		case k.Src != g.rank && k.Dst != g.rank:
		case k.direct:
			var err error
			if e.own[i], err = g.cfg.Device.NewSharedEvent(); err != nil {
				return nil, err
			}
			g.events = append(g.events, e.own[i])
		default:
			e.ring[i] = make([]*cuda.Event, g.layout.slots)
			for s := range e.ring[i] {
				if err := g.newEvents(&e.ring[i][s]); err != nil {
					return nil, err
				}
			}
		}
	}
	return e, nil
}

// eventLinks returns the links that the events are for which rank a gives to
// rank b.
func (l *Layout) eventLinks(a, b int) []int {
	var all []int
	for i, k := range l.links {
		if k.direct && (k.Src == a && k.Dst == b || k.Src == b && k.Dst == a) {
			all = append(all, i)
		}
	}
	return all
}

// Events returns, where Config.Events is set, what rank peer, one of
// Layout.Neighbours, needs for its PeerEvents, after Export and OpenEvent where it
// is another process. They are the Group's.
func (g *Group) Events(peer int) []*cuda.Event {
	e, ok := g.signals.(*eventSignals)
	if !ok {
		return nil
	}
	var all []*cuda.Event
	for _, i := range g.layout.eventLinks(g.rank, peer) {
		all = append(all, e.own[i])
	}
	return all
}

// PeerEvents takes what Events of rank peer returned. They stay the caller's, who
// closes those that it opened after Close. It comes before the first Enqueue.
func (g *Group) PeerEvents(peer int, events []*cuda.Event) error {
	e, ok := g.signals.(*eventSignals)
	links := g.layout.eventLinks(peer, g.rank)
	if !ok || len(events) != len(links) {
		return fmt.Errorf("devexec: rank %d: %d events of rank %d, want %d", g.rank, len(events), peer, len(links))
	}
	for n, i := range links {
		e.peer[i] = events[n]
	}
	return nil
}

// await lets the host wait until what is wanted has been recorded, and then the
// stream for the event.
func (e *eventSignals) await(s *lineup, marks []mark) error {
	for _, m := range marks {
		host, _ := e.g.flag(m.link, m.released)
		err := e.g.wait(func() (bool, error) { return int32(host.Load()-m.value) >= 0, nil })
		if err != nil {
			return err
		}
		if !e.g.layout.links[m.link].direct {
			continue // the relay has written it
		}
		if e.peer[m.link] == nil {
			return errors.New("no event of the other rank: PeerEvents was not called")
		}
		if err := s.Wait(e.peer[m.link]); err != nil {
			return err
		}
	}
	return nil
}

// tell records events, and says so.
func (e *eventSignals) tell(s *lineup, marks []mark) error {
	for _, m := range marks {
		event := e.own[m.link]
		if r := e.ring[m.link]; r != nil {
			event = r[m.value%uint32(len(r))]
		}
		if err := s.Record(event); err != nil {
			return err
		}
		host, _ := e.g.flag(m.link, m.released)
		host.Store(m.value)
	}
	return nil
}

// reached asks the event behind a counter, once it was recorded for this value.
func (e *eventSignals) reached(m mark) (bool, error) {
	host, _ := e.g.flag(m.link, m.released)
	k := &e.g.layout.links[m.link]
	switch {
	case int32(host.Load()-m.value) < 0:
		return false, nil
	case k.direct && e.peer[m.link] == nil:
		return true, nil
	case k.direct:
		return e.peer[m.link].Query()
	case m.released == (k.Src == e.g.rank):
		return true, nil // the relay has written it
	}
	return e.ring[m.link][m.value%uint32(len(e.ring[m.link]))].Query()
}
