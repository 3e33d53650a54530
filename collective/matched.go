package collective

import (
	"context"
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/p2p"
)

// Matched is a message that ProbeMatched or TryProbeMatched has found, and that only RecvMatched receives. Its Status
// is that of Probe.
type Matched struct {
	Status

	c        *Comm
	found    p2p.Message
	received bool
}

// ProbeMatched is a Probe that takes the message it finds out of the reach of all other calls: only RecvMatched
// receives it. Close names a message that was not received. Calls of other goroutines on c return ErrBusy while one
// waits in a ProbeMatched: several goroutines that serve use TryProbeMatched.
func ProbeMatched(ctx context.Context, c *Comm, from, tag int) (*Matched, error) {
	m, _, err := probeMatched(ctx, "ProbeMatched", c, from, tag, comm.Forever)
	return m, err
}

// TryProbeMatched is like ProbeMatched but does not wait: it returns false when there is no such message yet, or when
// none can arrive any more because the senders have closed. So several goroutines can serve other ranks, with a mutex
// around each call: they do not receive each other's messages, and one that works does not keep the others from calls.
func TryProbeMatched(c *Comm, from, tag int) (m *Matched, found bool, err error) {
	return probeMatched(context.Background(), "TryProbeMatched", c, from, tag, 0)
}

func probeMatched(ctx context.Context, name string, c *Comm, from, tag int, wait time.Duration) (*Matched, bool,
	error) {
	p, found, err := c.inner().Messages.ProbeMatched(ctx, name, from, tag, wait)
	if !found {
		return nil, false, err
	}
	if from == NoRank {
		return &Matched{Status: Status{Source: NoRank, Tag: tag}, c: c, found: p}, true, nil
	}
	return &Matched{Status: statusOf(p.Found()), c: c, found: p}, true, nil
}

// RecvMatched receives m into buf, as Recv does, and returns the number of elements received. Each Matched is received
// once.
func RecvMatched[T any](ctx context.Context, m *Matched, buf []T) (int, error) {
	const name = "RecvMatched"
	if m == nil || m.c == nil {
		return 0, fmt.Errorf("collective: %s: %w: the Matched is nil, or not from ProbeMatched", name, ErrArgument)
	}
	in := messageOf(new(p2p.Message), buf, m.found.Peer, m.Tag)
	if m.received {
		return 0, m.c.inner().ArgumentError(name, "the message was received before")
	}
	if in.Fewer = true; in.Peer != NoRank {
		in.Take(&m.found)
	}
	n, err := m.c.inner().Messages.Run(ctx, name, in, m.Tag, false)
	m.received = err == nil
	return n / sizeOf[T](), err
}
