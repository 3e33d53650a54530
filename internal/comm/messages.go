package comm

import (
	"context"
	"fmt"
	"math"

	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/transport"
)

// Message is one under way. The zero value is done.
type Message struct {
	c   *Comm
	ref engine.Ref
}

// SendRecv sends out and receives in side by side.
func (c *Comm) SendRecv(ctx context.Context, in, out engine.Message, tag int) error {
	const name = "SendRecv"
	for _, peer := range []int{out.Peer, in.Peer} { // before either is begun
		if err := c.checkMessage(name, peer, tag); err != nil {
			return err
		}
	}
	if err := c.Claim(name); err != nil {
		return err
	}
	defer c.End()
	received, err := c.enterMessage(ctx, name, in, c.Engine.StartRecv)
	if err != nil {
		return err
	}
	sent, err := c.enterMessage(ctx, name, out, c.Engine.StartSend)
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

// MessageError is an ErrArgument of a call of messages.
func (c *Comm) MessageError(call, format string, v ...any) error {
	return fmt.Errorf("collective: %s on rank %d: %w: %s", call, c.Rank, setup.ErrArgument, fmt.Sprintf(format, v...))
}

// checkMessage refuses a message that this communicator cannot carry.
func (c *Comm) checkMessage(call string, peer, tag int) error {
	switch {
	case peer < 0 || peer >= c.Size:
		return c.MessageError(call, "rank %d of %d", peer, c.Size)
	case peer == c.Rank:
		return c.MessageError(call, "rank %d is this one", peer)
	case c.Plans.Messages < 0:
		return c.MessageError(call, "messages are for %s", c.Plans.NoMessages())
	}
	return c.CheckTag(call, tag)
}

// CheckTag refuses a tag that is none.
func (c *Comm) CheckTag(call string, tag int) error {
	if tag < 0 || tag > math.MaxInt32 {
		return c.MessageError(call, "tag %d, want 0..%d", tag, math.MaxInt32)
	}
	return nil
}

// StartMessage begins a message.
func (c *Comm) StartMessage(call string, p engine.Message, tag int, start starter) (Message, error) {
	if err := c.checkMessage(call, p.Peer, tag); err != nil {
		return Message{}, err
	}
	if err := c.Claim(call); err != nil {
		return Message{}, err
	}
	defer c.End()
	ref, err := c.enterMessage(context.Background(), call, p, start)
	if err != nil {
		return Message{}, err
	}
	return Message{c, ref}, nil
}

// RunMessage begins a message and waits for it, without letting another call in
// between.
func (c *Comm) RunMessage(ctx context.Context, call string, p engine.Message, tag int, start starter) error {
	if err := c.checkMessage(call, p.Peer, tag); err != nil {
		return err
	}
	if err := c.Claim(call); err != nil {
		return err
	}
	defer c.End()
	begun, err := c.enterMessage(ctx, call, p, start)
	if err != nil {
		return err
	}
	return c.waitMessage(ctx, begun.Message())
}

// enterMessage begins a message on the communicator, which is claimed, unless ctx
// has ended, which is a failure of the communicator even where the message
// would not have to wait.
func (c *Comm) enterMessage(ctx context.Context, call string, p engine.Message, start starter) (engine.Ref, error) {
	if err := ctx.Err(); err != nil {
		c.Endpoint.Abort(transport.Fault{Rank: c.Rank, Text: fmt.Sprintf("%srank %d gave up before %s of tag %d: %v",
			engine.FaultCanceled, c.Rank, call, p.Tag, err)})
		fault, _ := c.Endpoint.Aborted()
		return engine.Ref{}, c.failDuring(ctx, fault, call, "")
	}
	ref := c.messages.Add(p)
	err := start(ref.Message())
	fault, failed := c.Endpoint.Aborted()
	if err != nil {
		fault, failed = c.Engine.FailMessage(err, ref.Message())
	}
	if failed {
		return engine.Ref{}, c.failMessage(ctx, fault, ref.Message())
	}
	return ref, nil
}

// Wait returns when the message has been sent, or received, on this rank.
func (m Message) Wait(ctx context.Context) error {
	if m.c == nil {
		return nil
	}
	if done, err := m.resume("Wait"); done || err != nil {
		return err
	}
	defer m.c.End()
	return m.c.waitMessage(ctx, m.ref.Message())
}

// Test moves what is under way as far as it can, and reports whether the
// message is done. It does not wait.
func (m Message) Test() (bool, error) {
	if m.c == nil {
		return true, nil
	}
	if done, err := m.resume("Test"); done || err != nil {
		return done, err
	}
	c := m.c
	defer c.End()
	err := c.Engine.Poll()
	fault, failed := c.Endpoint.Aborted()
	if err != nil {
		fault, failed = c.Engine.FailMessage(err, m.ref.Message())
	}
	if failed && !m.ref.Done() {
		return false, c.failMessage(context.Background(), fault, m.ref.Message())
	}
	return m.ref.Done(), nil
}

// resume claims the communicator for a message under way, unless it is done.
func (m Message) resume(call string) (done bool, err error) {
	err = m.c.Claim(call)
	if err == nil && m.ref.Done() {
		m.c.End()
		return true, nil
	}
	return false, err
}

func (c *Comm) waitMessage(ctx context.Context, p *engine.Message) error {
	if fault, failed := c.Engine.WaitMessage(ctx, p, &c.Waiter); failed {
		return c.failMessage(ctx, fault, p)
	}
	return nil
}
