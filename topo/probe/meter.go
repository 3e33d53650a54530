package probe

import (
	"context"
	"fmt"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/transport"
)

// meter is one rank's end of a measurement.
type meter struct {
	ctx   context.Context
	ep    transport.Endpoint
	lane  int
	rank  int
	to    []transport.Sender   // by rank; nil before the first chunk
	from  []transport.Receiver // by rank; likewise
	sink  []byte
	block []byte // the payload that is measured
	helps bool   // whether the rank that lends it writes a part of it
	pin   Pin    // nil for none
	lead  int    // the rank that gives out turns
}

// newMeter measures over the links of a lane, with payloads of the given number of bytes.
func newMeter(ctx context.Context, ep transport.Endpoint, lane, rank, size, bytes int) *meter {
	return &meter{
		ctx: ctx, ep: ep, lane: lane, rank: rank,
		to:   make([]transport.Sender, size),
		from: make([]transport.Receiver, size),
		sink: make([]byte, SlotBytes), block: make([]byte, bytes),
	}
}

const (
	pingPongs   = 40        // of one latency measurement; the median counts
	streamBytes = 512 << 10 // of one bandwidth measurement; the best counts
	streams     = 4         // bandwidth measurements, time allowing
	yields      = 64        // polls before a waiting rank sleeps
	spins       = 2000      // polls before a measuring rank yields
)

// measure measures the pair a < b, of which this rank is one, in about the given time, while the rank is tied to a
// core, where that is allowed. Both ends take the same decisions: b follows a's chunks.
func (m *meter) measure(core, a, b int, within time.Duration) (Pair, error) {
	if m.pin != nil {
		if restore, err := m.pin(core); err == nil {
			defer restore()
		}
	}
	if m.rank == b {
		return Pair{}, m.follow(a)
	}
	if _, err := m.timed(b, ping, nil); err != nil { // it may come later
		return Pair{}, err
	}
	start := time.Now()
	p := Pair{A: a, B: b}
	us, err := m.median(b, ping, nil, pingPongs, 5, start.Add(within/3))
	if err != nil {
		return p, err
	}
	p.LatencyUs = max(us/2, 0.001)
	for range streams {
		t, err := m.timed(b, copied, func() error { return m.sendBlock(b, copied) })
		if err != nil {
			return p, err
		}
		p.GBytesPerSecond = max(p.GBytesPerSecond, float64(len(m.block))/float64(max(t, 1)))
		if time.Since(start) > within {
			break
		}
	}
	return p, m.send(b, []byte{stop})
}

// Requests to the rank that follows: the first byte of a chunk.
const (
	ping   byte = iota + 1 // answer
	copied                 // a payload comes through slots; answer
	lent                   // a payload is lent; answer
	few                    // payloads are of LendBytes from now on; answer
	stop
)

// timed sends a request to a rank, does this rank's part of it, nil for none, and returns the time until the answer.
func (m *meter) timed(peer int, request byte, part func() error) (time.Duration, error) {
	t := time.Now()
	if err := m.send(peer, []byte{request}); err != nil {
		return 0, err
	}
	if part != nil {
		if err := part(); err != nil {
			return 0, err
		}
	}
	_, err := m.receive(peer, spins)
	return time.Since(t), err
}

// median returns the median of the times of most requests, in microseconds, or of the first ones, least or more, where
// the time is up.
func (m *meter) median(peer int, request byte, part func() error, most, least int, until time.Time) (float64, error) {
	var us []float64
	for len(us) < most && (len(us) < least || !time.Now().After(until)) {
		t, err := m.timed(peer, request, part)
		if err != nil {
			return 0, err
		}
		us = append(us, float64(t)/1e3)
	}
	return max(numbers.Median(us), 0.001), nil
}

// follow serves the requests of rank peer until stop.
func (m *meter) follow(peer int) error {
	for {
		request, err := m.receive(peer, spins)
		if err != nil {
			return err
		}
		switch request {
		case few:
			m.block = m.block[:LendBytes]
			fallthrough
		case ping:
			err = m.send(peer, []byte{request})
		case copied, lent:
			if err = m.receiveBlock(peer, request); err == nil {
				err = m.send(peer, []byte{request})
			}
		case stop:
			return nil
		default:
			return fmt.Errorf("unknown request %d", request)
		}
		if err != nil {
			return err
		}
	}
}

func (m *meter) send(peer int, b []byte) error {
	window, err := m.reserve(peer, len(b))
	if err != nil {
		return err
	}
	kernel.Copy(window, b, false)
	m.to[peer].Commit(&call.Header{})
	return nil
}

// reserve waits for room for a chunk of n bytes.
func (m *meter) reserve(peer, n int) (window []byte, err error) {
	if m.to[peer] == nil {
		if m.to[peer], err = m.ep.Sender(m.lane, peer); err != nil {
			return nil, fmt.Errorf("link to rank %d: %w", peer, err)
		}
	}
	if err = m.await(spins, func() (ok bool, err error) {
		window, ok, err = m.to[peer].TryReserve(n)
		return ok, err
	}); err != nil {
		return nil, fmt.Errorf("sending to rank %d: %w", peer, err)
	}
	return window, nil
}

// receive takes one chunk and returns its first byte, 0 when it is empty.
func (m *meter) receive(peer, spins int) (byte, error) {
	var window []byte
	var h call.Header
	var err error
	if m.from[peer] == nil {
		m.from[peer], err = m.ep.Receiver(m.lane, peer)
	}
	if err == nil {
		err = m.await(spins, func() (ok bool, err error) {
			window, ok, err = m.from[peer].TryPeek(&h)
			if to := m.to[peer]; !ok && err == nil && to != nil {
				_, err = to.Help(m.helps) // the payload that sendBlock has lent
			}
			return ok, err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("receiving from rank %d: %w", peer, err)
	}
	n := copy(m.sink, window)
	m.from[peer].Release()
	if n == 0 {
		return 0, nil
	}
	return m.sink[0], nil
}

// await calls ready until it is true: some times at once, some times with a
// yield between, then asleep.
func (m *meter) await(spins int, ready func() (bool, error)) error {
	bell := m.ep.Bell()
	for i := 0; ; i++ {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		switch {
		case i < spins:
		case i < spins+yields:
			bell.Yield()
		default:
			if fault, failed := m.ep.Aborted(); failed {
				return fault
			}
			if err := m.ctx.Err(); err != nil {
				return err
			}
			bell.Prepare()
			if ok, err := ready(); ok || err != nil {
				bell.Cancel()
				return err
			}
			bell.Sleep(20 * time.Millisecond)
		}
	}
}
