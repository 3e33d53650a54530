package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/transport"
)

// LendBytes is the size of the payload that Lending measures.
const LendBytes = 32 << 10

// lendTrips is of one measurement of how payloads pass; the median counts.
const lendTrips = 9

// tryLending measures the time that a payload of LendBytes takes to rank b and an answer back: through slots, divided
// by the time when rank b reads it from the memory of this process. Pages and system calls are slow on some machines,
// and copies between cores on others.
func (m *meter) tryLending(b int, until time.Time) (gain float64, err error) {
	var us [2]float64
	for k, request := range []byte{copied, lent} {
		us[k], err = m.median(b, request, func() error { return m.sendBlock(b, request) }, lendTrips, 3, until)
		if err != nil {
			return 0, err
		}
	}
	return numbers.Digits(us[0] / us[1]), nil
}

// lendingTime bounds Lending, ranks waiting included, where no rank is lost.
const lendingTime = 5 * time.Millisecond

// Lending returns the time of a payload of LendBytes between ranks 0 and 1 through slots, divided by its time when
// lent, now, and 0 where payloads cannot be lent. All ranks, which are on one host, call it together, and all get the
// same result. ep must have links of this lane between all of them, not used otherwise meanwhile. Lending returns the
// fault of ep, a transport.Fault, when a rank fails, and stops when ctx ends.
//
// It is measured for every communicator: the cores of a virtual machine may share a cache now
// and not a minute later. Between cores of one EPYC the gain was 0.4, and 1.5 when they had
// moved apart.
func Lending(ctx context.Context, ep transport.Endpoint, lane, rank, size int) (float64, error) {
	if size == 1 {
		return 0, nil
	}
	m := newMeter(ctx, ep, lane, rank, size, LendBytes)
	if lends, _ := ep.Reaches((rank + 1) % size); !lends {
		return 0, nil
	}
	gain, err := 0.0, error(nil)
	switch rank {
	case 0:
		if gain, err = m.tryLending(1, time.Now().Add(lendingTime)); err == nil {
			err = m.send(1, []byte{stop})
		}
		for r := 1; r < size && err == nil; r++ {
			err = m.send(r, binary.LittleEndian.AppendUint64(nil, math.Float64bits(gain)))
		}
	case 1:
		err = m.follow(0)
	}
	if rank > 0 && err == nil {
		_, err = m.receive(0, 0)
		gain = math.Float64frombits(binary.LittleEndian.Uint64(m.sink))
	}
	if err != nil {
		return 0, fmt.Errorf("probe: lending: %w", err)
	}
	return gain, nil
}

// chunk is the size of the chunks in which payloads pass through slots.
func (m *meter) chunk() int { return min(SlotBytes, m.ep.MaxPayload()) }

// sendBlock sends m.block in one of the two ways.
func (m *meter) sendBlock(peer int, way byte) error {
	if way == copied {
		for chunk := range slices.Chunk(m.block, m.chunk()) {
			if err := m.send(peer, chunk); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := m.reserve(peer, 0); err != nil {
		return err
	}
	to := m.to[peer]
	to.Lend(&call.Header{}, m.block, false)
	m.ep.Fence()
	to.Wake()
	return nil
}

// receiveBlock receives the payload of sendBlock.
func (m *meter) receiveBlock(peer int, way byte) error {
	link, is := m.from[peer].(transport.LentReceiver)
	if !is {
		return fmt.Errorf("taking from rank %d: %w", peer, errors.ErrUnsupported)
	}
	for at := 0; at < len(m.block); {
		into := m.block[at:]
		if way == copied {
			into = into[:min(m.chunk(), len(into))]
		}
		var h call.Header
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
