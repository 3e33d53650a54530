package comm

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// Probe finds the next message from a rank with a tag, either -1 for any, and waits for one if wait is set.
func (m *Messages) Probe(ctx context.Context, call string, from, tag int, wait bool) (engine.Message, bool, error) {
	if err := m.beginAny(call, from, tag); err != nil {
		return engine.Message{}, false, err
	}
	defer m.c.End()
	m.c.tally.enter(rowProbe, 0)
	m.c.tally.count(rowProbe, 0)
	return m.probe(ctx, call, 0, from, tag, wait)
}

// RecvAny receives into p the next message from a rank with a tag, either -1 for any, and returns how many
// bytes came.
func (m *Messages) RecvAny(ctx context.Context, call string, p engine.Message, tag int) (int, error) {
	if err := m.beginAny(call, p.Peer, tag); err != nil {
		return 0, err
	}
	defer m.c.End()
	m.c.tally.enter(rowRecv, len(p.Buf))
	found, _, err := m.probe(ctx, call, p.DType, p.Peer, tag, true)
	if err != nil {
		return 0, err
	}
	p.Peer, p.Tag = found.Peer, found.Found().Root
	return m.run(ctx, call, p, m.c.Engine.StartRecv)
}

// beginAny is begin where from and tag may be -1.
func (m *Messages) beginAny(call string, from, tag int) error {
	if from == -1 {
		from = 0
	}
	if tag == -1 {
		tag = 0
	}
	return m.begin(call, from, tag)
}

func (m *Messages) probe(ctx context.Context, call string, of kernel.DType, from, tag int,
	wait bool) (engine.Message, bool, error) {
	p := engine.Message{Peer: from, Tag: int32(tag), DType: of}
	if tag < 0 {
		p.Tag = engine.AnyTag
	}
	found, err := m.c.Engine.Look(&p)
	fault, failed := m.c.Endpoint.Aborted()
	switch {
	case err != nil:
		fault, failed = engine.FaultOf(err, m.c.Rank, p.String()), true
	case ctx.Err() != nil:
		return p, false, m.c.gaveUp(ctx, call, fmt.Sprintf(" of tag %d", p.Tag))
	}
	if !failed && !found && wait {
		m.c.Engine.StartProbe(&p)
		fault, failed = m.c.Engine.WaitMessage(ctx, &p, &m.c.Waiter)
	}
	if failed {
		return p, false, m.c.failDuring(fault, p.String(), "")
	}
	return p, p.Done(), nil
}
