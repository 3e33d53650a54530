package meter

import (
	"context"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
	"github.com/treerun/treerun/collective"
)

// limits is what was found of the machine until now.
type limits struct {
	rates   map[int64]float64 // by bytes copied: read and written per second, on every rank at once
	latency float64           // seconds, of the quickest link
}

func newLimits(c *collective.Comm) *limits {
	l := &limits{rates: make(map[int64]float64)}
	for i, link := range c.Graph().Links {
		if seconds := link.LatencyUs * 1e-6; i == 0 || seconds < l.latency {
			l.latency = seconds
		}
	}
	return l
}

const (
	leastCopy  = 4 << 10  // a smaller copy is all overhead, and in no row what takes the time
	copyVolume = 16 << 20 // bytes that a rank copies at a time at least: some milliseconds
	copyRounds = 5        // the best counts
)

// floor returns the least seconds that a case could take. All ranks call it
// together. It overwrites the buffers.
func (m *meter[T]) floor(ctx context.Context, k *suite.Case) (float64, error) {
	l := m.limits
	latency := l.latency
	if k.Rooted {
		latency = 0
	}
	if k.Empty {
		return latency, nil
	}
	all := k.Bytes * int64(k.Calls)
	bytes := max(all, leastCopy)
	rate, ok := l.rates[bytes]
	if !ok {
		var err error
		if rate, err = m.copyRate(ctx, int(bytes)/k.Type.Size, bytes); err != nil {
			return 0, err
		}
		l.rates[bytes] = rate
	}
	return latency + k.Traffic(all, k.InPlace, m.c.Size())/rate, nil
}

// copyRate returns the bytes per second that a rank reads and writes while all
// ranks copy this much, from one buffer to the other. It counts from one
// barrier to the next: where ranks share cores, a rank's own clock would not
// see the others' turns.
func (m *meter[T]) copyRate(ctx context.Context, count int, bytes int64) (float64, error) {
	times := max(1, copyVolume/bytes)
	best := 0.0
	for range copyRounds {
		if err := collective.Barrier(ctx, m.c); err != nil {
			return 0, err
		}
		begin := time.Now()
		for range times {
			copy(m.recv[:count], m.send[:count])
		}
		if err := collective.Barrier(ctx, m.c); err != nil {
			return 0, err
		}
		seconds, err := slowestOf(ctx, m.c, time.Since(begin).Seconds())
		if err != nil {
			return 0, err
		}
		best = max(best, 2*float64(bytes*times)/seconds)
	}
	return best, nil
}
