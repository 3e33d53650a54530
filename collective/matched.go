package collective

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/collective/internal/p2p"
)

// Matched is a message that ProbeMatched has found, and that only RecvMatched receives. Its Status is that of Probe.
type Matched struct {
	Status

	c        *Comm
	found    p2p.Message
	received bool
}

// ProbeMatched is a Probe that takes the message it finds out of the reach of all other calls: only RecvMatched
// receives it. So two goroutines that look for messages of any rank, one call at a time, do not receive each other's.
// Close names a message that was not received.
func ProbeMatched(ctx context.Context, c *Comm, from, tag int) (*Matched, error) {
	if from == NoRank {
		return &Matched{Status: Status{Source: NoRank, Tag: tag}, c: c, found: p2p.Message{Peer: NoRank}}, nil
	}
	p, err := c.inner().Messages.ProbeMatched(ctx, "ProbeMatched", from, tag)
	if err != nil {
		return nil, err
	}
	return &Matched{Status: statusOf(p.Found()), c: c, found: p}, nil
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
