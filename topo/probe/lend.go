package probe

import (
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/transport"
)

// lendTrips is of one measurement of how payloads pass; the median counts.
const lendTrips = 9

// lends reports whether payloads can be lent between all ranks.
func (m *meter) lends() bool {
	r, is := m.ep.(transport.Reacher)
	if !is {
		return false
	}
	ok, _ := r.Reaches()
	return ok
}

// tryLending measures what a payload of topo.LendBytes takes to rank b and an answer back,
// in microseconds: through slots, and read from the memory of this process. Pages and
// system calls are dear on some machines, and copies between cores on others.
func (m *meter) tryLending(b int, p *Pair, until time.Time) error {
	for _, way := range []struct {
		ask byte
		us  *float64
	}{{copied, &p.CopiedUs}, {lent, &p.LentUs}} {
		var trips []float64
		for i := range lendTrips {
			t := time.Now()
			if err := m.send(b, []byte{way.ask}); err != nil {
				return err
			}
			if err := m.pass(b, way.ask); err != nil {
				return err
			}
			if _, err := m.receive(b, spins); err != nil {
				return err
			}
			trips = append(trips, float64(time.Since(t))/1e3)
			if i >= 2 && time.Now().After(until) {
				break
			}
		}
		*way.us = max(median(trips), 0.001)
	}
	return nil
}

// pass sends m.block in one of the two ways.
func (m *meter) pass(peer int, way byte) error {
	if way == copied {
		for from := 0; from < len(m.block); from += SlotBytes {
			if err := m.send(peer, m.block[from:from+SlotBytes]); err != nil {
				return err
			}
		}
		return nil
	}
	to := m.to[peer]
	if err := m.await(spins, func() (ok bool, err error) {
		_, ok, err = to.TryReserve(0)
		return ok, err
	}); err != nil {
		return fmt.Errorf("lending to rank %d: %w", peer, err)
	}
	to.Lend(&transport.Header{}, m.block)
	m.ep.Fence()
	to.Wake()
	return nil
}

// take receives what pass sent.
func (m *meter) take(peer int, way byte) error {
	link, is := m.from[peer].(transport.LentReceiver)
	if !is {
		return fmt.Errorf("taking from rank %d: %w", peer, errors.ErrUnsupported)
	}
	for at := 0; at < len(m.block); {
		into := m.block[at:]
		if way == copied {
			into = into[:SlotBytes]
		}
		var h transport.Header
		var got []byte
		if err := m.await(spins, func() (ok bool, err error) {
			got, ok, err = link.TryPeekInto(&h, into)
			return ok, err
		}); err != nil {
			return fmt.Errorf("taking from rank %d: %w", peer, err)
		}
		if len(got) != len(into) {
			return fmt.Errorf("taking from rank %d: %d bytes, want %d", peer, len(got), len(into))
		}
		if way == copied {
			copy(into, got)
		}
		link.Release()
		at += len(into)
	}
	return nil
}
