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
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/transport"
)

// LendBytes and LendMany are the sizes of the payloads that Lending measures.
const (
	LendBytes = 128 << 10
	LendMany  = 1 << 20
)

// Trips of one measurement of how payloads pass; the quickest counts: the first ones touch new pages, and ranks that
// share a core may wait for each other.
const (
	lendTrips = 9
	lendLeast = 5 // however long they take
)

// Gains are times that payloads take to another rank and an answer back: through slots, divided by the time when that
// rank reads them from the memory of this process. 0: they cannot be lent.
type Gains struct {
	Few  float64 // of LendBytes
	Many float64 // of LendMany, of which the sender writes a part to the receiver's memory
}

// tryLending measures the Gains with rank b. Pages and system calls are slow on some machines, and copies between cores
// on others. The large payloads come first: they use every slot, whose pages are new.
func (m *meter) tryLending(b int) (g Gains, err error) {
	m.helps = true
	if g.Many, err = m.lendGain(b); err != nil {
		return g, err
	}
	m.block, m.helps = m.block[:LendBytes], false
	if _, err = m.timed(b, few, nil); err != nil {
		return g, err
	}
	g.Few, err = m.lendGain(b)
	return g, err
}

// lendGain measures the gain of payloads like m.block.
func (m *meter) lendGain(b int) (float64, error) {
	least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	var until time.Time
	for i := 0; i < lendTrips && (i < lendLeast || time.Now().Before(until)); i++ {
		if i == 1 {
			until = time.Now().Add(lendingTime / 2)
		}
		for k, request := range []byte{copied, lent} {
			t, err := m.timed(b, request, func() error { return m.sendBlock(b, request) })
			if err != nil {
				return 0, err
			}
			least[k] = min(least[k], t)
		}
	}
	return numbers.Digits(float64(least[0]) / float64(max(least[1], 1))), nil
}

// lendingTime bounds the trips after the first ones, where no rank is lost.
const lendingTime = 8 * time.Millisecond

// Lending returns the Gains between ranks 0 and 1 now, zero where payloads cannot be lent. All ranks, which are on one
// host, call it together, and all get the same result. ep must have links of this lane between all of them, not used
// otherwise meanwhile. Lending returns the fault of ep, a transport.Fault, when a rank fails, and stops when ctx ends.
//
// It is measured for every communicator: the cores of a virtual machine may share a cache now and not a minute later.
// Between cores of one EPYC the gain of few bytes was 0.4 in some minutes and 1.0 in others, that of many 1.1 to 1.6.
func Lending(ctx context.Context, ep transport.Endpoint, lane, rank, size int) (g Gains, err error) {
	if size == 1 {
		return g, nil
	}
	m := newMeter(ctx, ep, lane, rank, size, LendMany)
	if lends, _ := ep.Reaches((rank + 1) % size); !lends {
		return g, nil
	}
	switch rank {
	case 0:
		if g, err = m.tryLending(1); err == nil {
			err = m.send(1, []byte{stop})
		}
		bits := binary.LittleEndian.AppendUint64(nil, math.Float64bits(g.Few))
		bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(g.Many))
		for r := 1; r < size && err == nil; r++ {
			err = m.send(r, bits)
		}
	case 1:
		err = m.follow(0)
	}
	if rank > 0 && err == nil {
		_, err = m.receive(0, 0)
		g.Few = math.Float64frombits(binary.LittleEndian.Uint64(m.sink))
		g.Many = math.Float64frombits(binary.LittleEndian.Uint64(m.sink[8:]))
	}
	if err != nil {
		return Gains{}, fmt.Errorf("probe: lending: %w", err)
	}
	return g, nil
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
	to.Lend(&call.Header{}, m.block, m.helps)
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
			kernel.Copy(into, got, false)
		}
		link.Release()
		at += len(into)
	}
	return nil
}
