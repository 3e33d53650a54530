package collective

import (
	"context"
	"fmt"
	"math"

	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/transport"
)

// message is one under way. The zero value is done.
type message struct {
	c   *inside
	ref engine.Ref
}

// sendRecv sends out and receives in side by side.
func (c *inside) sendRecv(ctx context.Context, in, out engine.Message, tag int) error {
	const name = "SendRecv"
	for _, peer := range []int{out.Peer, in.Peer} { // before either is begun
		if err := c.checkMessage(name, peer, tag); err != nil {
			return err
		}
	}
	if err := c.claim(name); err != nil {
		return err
	}
	defer c.end()
	received, err := c.enterMessage(ctx, name, in, c.engine.StartRecv)
	if err != nil {
		return err
	}
	sent, err := c.enterMessage(ctx, name, out, c.engine.StartSend)
	if err != nil {
		return err
	}
	if err := c.waitMessage(ctx, received.Message()); err != nil {
		return err
	}
	return c.waitMessage(ctx, sent.Message())
}

// starter is Links.StartSend or Links.StartRecv.
type starter = func(*engine.Message) error

func (c *inside) messageError(call, format string, v ...any) error {
	return fmt.Errorf("collective: %s on rank %d: %w: %s", call, c.rank, ErrArgument, fmt.Sprintf(format, v...))
}

// checkMessage refuses a message that this communicator cannot carry.
func (c *inside) checkMessage(call string, peer, tag int) error {
	switch {
	case peer < 0 || peer >= c.size:
		return c.messageError(call, "rank %d of %d", peer, c.size)
	case peer == c.rank:
		return c.messageError(call, "rank %d is this one", peer)
	case c.plans.messages < 0:
		return c.messageError(call, "messages are for %s", c.plans.noMessages())
	}
	return c.checkTag(call, tag)
}

func (c *inside) checkTag(call string, tag int) error {
	if tag < 0 || tag > math.MaxInt32 {
		return c.messageError(call, "tag %d, want 0..%d", tag, math.MaxInt32)
	}
	return nil
}

// startMessage begins a message.
func (c *inside) startMessage(call string, p engine.Message, tag int, start starter) (message, error) {
	if err := c.checkMessage(call, p.Peer, tag); err != nil {
		return message{}, err
	}
	if err := c.claim(call); err != nil {
		return message{}, err
	}
	defer c.end()
	ref, err := c.enterMessage(context.Background(), call, p, start)
	if err != nil {
		return message{}, err
	}
	return message{c, ref}, nil
}

// runMessage begins a message and waits for it, without letting another call in
// between.
func (c *inside) runMessage(ctx context.Context, call string, p engine.Message, tag int, start starter) error {
	if err := c.checkMessage(call, p.Peer, tag); err != nil {
		return err
	}
	if err := c.claim(call); err != nil {
		return err
	}
	defer c.end()
	begun, err := c.enterMessage(ctx, call, p, start)
	if err != nil {
		return err
	}
	return c.waitMessage(ctx, begun.Message())
}

// enterMessage begins a message on the communicator, which is claimed, unless ctx
// has ended, which is a failure of the communicator even where the message
// would not have to wait.
func (c *inside) enterMessage(ctx context.Context, call string, p engine.Message, start starter) (engine.Ref, error) {
	if err := ctx.Err(); err != nil {
		c.ep.Abort(transport.Fault{Rank: c.rank, Text: fmt.Sprintf("%srank %d gave up before %s of tag %d: %v",
			engine.FaultCanceled, c.rank, call, p.Tag, err)})
		fault, _ := c.ep.Aborted()
		return engine.Ref{}, c.failDuring(ctx, fault, call, "")
	}
	ref := c.messages.Add(p)
	err := start(ref.Message())
	fault, failed := c.ep.Aborted()
	if err != nil {
		fault, failed = c.engine.FailMessage(err, ref.Message())
	}
	if failed {
		return engine.Ref{}, c.failMessage(ctx, fault, ref.Message())
	}
	return ref, nil
}

// Wait returns when the message has been sent, or received, on this rank.
func (m message) Wait(ctx context.Context) error {
	if m.c == nil {
		return nil
	}
	if done, err := m.resume("Wait"); done || err != nil {
		return err
	}
	defer m.c.end()
	return m.c.waitMessage(ctx, m.ref.Message())
}

// Test moves what is under way as far as it can, and reports whether the
// message is done. It does not wait.
func (m message) Test() (bool, error) {
	if m.c == nil {
		return true, nil
	}
	if done, err := m.resume("Test"); done || err != nil {
		return done, err
	}
	c := m.c
	defer c.end()
	err := c.engine.Poll()
	fault, failed := c.ep.Aborted()
	if err != nil {
		fault, failed = c.engine.FailMessage(err, m.ref.Message())
	}
	if failed && !m.ref.Done() {
		return false, c.failMessage(context.Background(), fault, m.ref.Message())
	}
	return m.ref.Done(), nil
}

// resume claims the communicator for a message under way, unless it is done.
func (m message) resume(call string) (done bool, err error) {
	err = m.c.claim(call)
	if err == nil && m.ref.Done() {
		m.c.end()
		return true, nil
	}
	return false, err
}

func (c *inside) waitMessage(ctx context.Context, p *engine.Message) error {
	if fault, failed := c.engine.WaitMessage(ctx, p, &c.waiter); failed {
		return c.failMessage(ctx, fault, p)
	}
	return nil
}
