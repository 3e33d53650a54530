package collective

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/cuda"
)

// Where a device of a host cannot wait for memory, the streams of its ranks wait for
// events of each other.

// eventOffer is the events that a rank gives another one of its host.
type eventOffer struct {
	Peer    int
	Handles []byte // of each, one after the other
	Number  int    // of the events in the process, for a rank of the same
}

// offerEvents returns what the other ranks of the host need.
func (o *opening) offerEvents() ([]eventOffer, error) {
	var offers []eventOffer
	for _, peer := range o.layout.Neighbours(o.c.rank) {
		events := o.group.Events(peer)
		offer := eventOffer{Peer: peer}
		if t := threadOf(o.c.world); t != nil {
			offer.Number = t.keepEvents(events)
			offers = append(offers, offer)
			continue
		}
		for _, e := range events {
			h, err := e.Export()
			if err != nil {
				return nil, err
			}
			offer.Handles = append(offer.Handles, h[:]...)
		}
		offers = append(offers, offer)
	}
	return offers, nil
}

// takeEvents opens the events that the others offer this rank.
func (o *opening) takeEvents(all [][]eventOffer) error {
	for _, peer := range o.layout.Neighbours(o.c.rank) {
		i := slices.IndexFunc(all[peer], func(f eventOffer) bool { return f.Peer == o.c.rank })
		if i < 0 {
			return fmt.Errorf("rank %d offers no events", peer)
		}
		events, err := o.openEvents(&all[peer][i])
		if err == nil {
			err = o.group.PeerEvents(peer, events)
		}
		if err != nil {
			return fmt.Errorf("events of rank %d: %w", peer, err)
		}
	}
	return nil
}

func (o *opening) openEvents(offer *eventOffer) ([]*cuda.Event, error) {
	if t := threadOf(o.c.world); t != nil {
		return t.keptEvents(offer.Number), nil
	}
	var h cuda.EventHandle
	if len(offer.Handles)%len(h) != 0 {
		return nil, fmt.Errorf("%d bytes of handles", len(offer.Handles))
	}
	var events []*cuda.Event
	for b := range slices.Chunk(offer.Handles, len(h)) {
		copy(h[:], b)
		e, err := o.device.OpenEvent(h)
		if err != nil {
			return nil, err
		}
		o.opened = append(o.opened, e)
		events = append(events, e)
	}
	return events, nil
}
