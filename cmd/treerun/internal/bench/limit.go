//go:build linux

package bench

import (
	"context"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
)

// session holds the common state of the cases of all types: where calls run, and the measurements of the machine so
// far.
type session struct {
	c      *collective.Comm
	sparse *collective.Comm // for sparse calls: that of the others, with ranks that only aggregate
	o      *Options
	device *cuda.Device // with the data; nil: the host

	rates   map[int64]float64 // by bytes copied: read and written per second, on every rank at once; nil: no limits
	latency float64           // seconds, of the quickest link
}

func newSession(c, sparse *collective.Comm, o *Options, device *cuda.Device) *session {
	s := &session{c: c, sparse: sparse, o: o, rates: make(map[int64]float64), device: device}
	links := c.Graph().Links
	if device != nil {
		links = c.DeviceGraph().Links
	}
	for i, link := range links {
		if seconds := link.LatencyUs * 1e-6; i == 0 || seconds < s.latency {
			s.latency = seconds
		}
	}
	return s
}

const (
	minCopy    = 4 << 10  // a smaller copy is all overhead, and dominates the time of no row
	copyVolume = 16 << 20 // minimum bytes that a rank copies at a time: some milliseconds
	copyRounds = 5        // the best counts
)

// minSeconds returns the least seconds that a case could take, 0 without limits. All ranks call it together. It
// overwrites the buffers.
func (m *meter[T]) minSeconds(ctx context.Context, k *Case, s *spread) (float64, error) {
	if m.rates == nil {
		return 0, nil
	}
	latency := m.latency
	if k.Kind.HasRoot() {
		latency = 0
	}
	if k.empty() {
		return latency, nil
	}
	total := k.Bytes * int64(k.Calls)
	bytes := max(total, minCopy)
	rate, ok := m.rates[bytes]
	if !ok {
		var err error
		if rate, err = m.copyRate(ctx, int(bytes)/k.Type.Size, bytes); err != nil {
			return 0, err
		}
		m.rates[bytes] = rate
	}
	network := 0.0 // between hosts
	if rateLimit := m.c.NetworkLimit(k.Kind, m.o.Root); rateLimit > 0 {
		network = float64(total) / (rateLimit * 1e9)
	}
	if s != nil {
		network = m.networkSeconds(s, network)
	}
	return latency + max(k.traffic(total, k.InPlace, m.c.Size())/rate, network), nil
}

// copyRate returns the bytes per second that a rank reads and writes while all ranks copy the given amount, from one
// buffer to the other. It counts from one barrier to the next: where ranks share cores, a rank's own clock would not
// include the others' turns.
func (m *meter[T]) copyRate(ctx context.Context, count int, bytes int64) (float64, error) {
	times := max(1, copyVolume/bytes)
	if m.gpu != nil {
		times = min(max(1, gpuCopyVolume/bytes), maxCopies)
	}
	best := 0.0
	for range copyRounds {
		if err := collective.Barrier(ctx, m.c); err != nil {
			return 0, err
		}
		begin := time.Now()
		if m.gpu != nil {
			if err := m.copyOnGPU(ctx, count, times); err != nil {
				return 0, err
			}
		} else {
			for range times {
				copy(m.recv[:count], m.send[:count])
			}
		}
		if err := collective.Barrier(ctx, m.c); err != nil {
			return 0, err
		}
		seconds, err := collective.AllReduceValue(ctx, m.c, time.Since(begin).Seconds(), collective.Max)
		if err != nil {
			return 0, err
		}
		best = max(best, 2*float64(bytes*times)/seconds)
	}
	return best, nil
}
