package comm

import (
	"context"
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/transport"
)

// Forever is the timeout of a Probe that only a message ends.
const Forever = engine.Forever

// Probe finds the next message from a rank with a tag, or any, and waits for one for so long.
func (m *Messages) Probe(ctx context.Context, call string, from, tag int, wait time.Duration) (p2p.Got, bool,
	error) {
	if err := m.begin(call, &p2p.Message{Peer: from}, tag, true); err != nil {
		return p2p.Got{}, false, err
	}
	defer m.c.End()
	if from == p2p.NoRank {
		return p2p.Got{From: p2p.NoRank, Tag: int32(tag)}, true, nil
	}
	m.c.Tally.enter(status.RowProbe, 0)
	m.c.Tally.count(status.RowProbe, 0)
	return m.look(ctx, call, from, tag, wait, false)
}

// ProbeMatched is Probe for a message that from then on is for the Receive that p2p.Message.Take makes of the result.
func (m *Messages) ProbeMatched(ctx context.Context, call string, from, tag int, wait time.Duration) (p2p.Message,
	bool, error) {
	if err := m.begin(call, &p2p.Message{Peer: from}, tag, true); err != nil {
		return p2p.Message{}, false, err
	}
	defer m.c.End()
	if from == p2p.NoRank {
		return p2p.Message{Peer: from}, true, nil
	}
	m.c.Tally.enter(status.RowProbe, 0)
	m.c.Tally.count(status.RowProbe, 0)
	_, found, err := m.look(ctx, call, from, tag, wait, true)
	return m.probe, found, err
}

// look is Probe on the communicator, which is claimed, or ProbeMatched.
func (m *Messages) look(ctx context.Context, call string, from, tag int, wait time.Duration,
	claims bool) (p2p.Got, bool, error) {
	p := &m.probe
	*p = p2p.Message{Peer: from, Tag: int32(tag), Patient: wait != Forever, Claims: claims, Call: call}
	found, err := m.c.Engine.Look(p)
	fault, failed := m.c.Endpoint.Aborted()
	switch {
	case err != nil:
		fault, failed = transport.CallFault(err, m.c.Rank, m.c.Engine.Messages.Describe(p)), true
	case ctx.Err() != nil:
		return p2p.Got{}, false, m.c.failure.gaveUp(ctx, call, fmt.Sprintf(" of tag %d", tag))
	}
	if !failed && !found && wait != 0 {
		fault, failed = m.c.Engine.WaitProbe(ctx, p, &m.c.Waiter, wait)
	}
	if failed {
		return p2p.Got{}, false, m.c.failure.during(fault, p.String(), "")
	}
	return p.Found(), p.Done(), nil
}
