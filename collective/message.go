package collective

import (
	"context"
	"fmt"
	"math"

	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/transport"
)

// A Message is a Send or a Recv under way. As with a Request, it moves on while
// any call, Wait or Test of its communicator runs on this rank. As many may be
// under way as one likes: to begin one more never waits. Wait or Test may be called
// again after the end, and need not be called. The zero value is done.
type Message struct {
	c   *Comm
	ref engine.Ref
}

// Send sends buf to rank to under a tag. It returns when buf may be used again,
// which says nothing about whether to has received it. Messages with the same
// tag between two ranks arrive in the order in which they were sent.
func Send[T Number](ctx context.Context, c *Comm, buf []T, to, tag int) error {
	return c.runMessage(ctx, "Send", messageOf(buf, to, tag), tag, c.engine.StartSend)
}

// Recv receives into buf what rank from sends under a tag. The length and the
// element type are those of the Send; other ones are an ErrMismatch on all
// ranks.
// After an error the contents of buf are undefined.
func Recv[T Number](ctx context.Context, c *Comm, buf []T, from, tag int) error {
	return c.runMessage(ctx, "Recv", messageOf(buf, from, tag), tag, c.engine.StartRecv)
}

// starter is Links.StartSend or Links.StartRecv.
type starter = func(*engine.Message) error

func messageOf[T Number](buf []T, peer, tag int) engine.Message {
	return engine.Message{Peer: peer, Tag: int32(tag), DType: dtypeOf[T](), Buf: bytesOf(buf)}
}

// SendRecv sends send to rank to and receives recv from rank from, under the
// same tag, side by side: ranks that do this in a circle do not wait for each
// other for ever, however long the messages are. The slices do not overlap. to
// and from may be the same rank; where both are this one, send is copied.
// After an error the contents of recv are undefined.
func SendRecv[T Number](ctx context.Context, c *Comm, send []T, to int, recv []T, from, tag int) error {
	const name = "SendRecv"
	if overlapOf(bytesOf(send), bytesOf(recv)) != apart {
		return c.messageError(name, "send and recv overlap")
	}
	if to == c.rank && from == c.rank {
		return sendToSelf(c, send, recv, tag)
	}
	for _, peer := range []int{to, from} { // before either is begun
		if err := c.checkMessage(name, peer, tag); err != nil {
			return err
		}
	}
	if err := c.claim(name); err != nil {
		return err
	}
	defer c.end()
	in, err := c.enterMessage(ctx, name, messageOf(recv, from, tag), c.engine.StartRecv)
	if err != nil {
		return err
	}
	out, err := c.enterMessage(ctx, name, messageOf(send, to, tag), c.engine.StartSend)
	if err != nil {
		return err
	}
	if err := c.waitMessage(ctx, in.Message()); err != nil {
		return err
	}
	return c.waitMessage(ctx, out.Message())
}

// sendToSelf is a SendRecv of a rank with itself.
func sendToSelf[T Number](c *Comm, send, recv []T, tag int) error {
	const name = "SendRecv"
	if len(send) != len(recv) {
		return c.messageError(name, "send has %d elements, recv %d", len(send), len(recv))
	}
	if err := c.checkTag(name, tag); err != nil {
		return err
	}
	if err := c.claim(name); err != nil {
		return err
	}
	defer c.end()
	copy(recv, send)
	return nil
}

// StartSend begins a Send; buf must not be changed until the Message is done.
func StartSend[T Number](c *Comm, buf []T, to, tag int) (Message, error) {
	return c.startMessage("Send", messageOf(buf, to, tag), tag, c.engine.StartSend)
}

// StartRecv begins a Recv; buf must not be used until the Message is done.
func StartRecv[T Number](c *Comm, buf []T, from, tag int) (Message, error) {
	return c.startMessage("Recv", messageOf(buf, from, tag), tag, c.engine.StartRecv)
}

func (c *Comm) messageError(call, format string, v ...any) error {
	return fmt.Errorf("collective: %s on rank %d: %w: %s", call, c.rank, ErrArgument, fmt.Sprintf(format, v...))
}

// checkMessage refuses a message that this communicator cannot carry.
func (c *Comm) checkMessage(call string, peer, tag int) error {
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

func (c *Comm) checkTag(call string, tag int) error {
	if tag < 0 || tag > math.MaxInt32 {
		return c.messageError(call, "tag %d, want 0..%d", tag, math.MaxInt32)
	}
	return nil
}

// startMessage begins a message.
func (c *Comm) startMessage(call string, p engine.Message, tag int, start starter) (Message, error) {
	if err := c.checkMessage(call, p.Peer, tag); err != nil {
		return Message{}, err
	}
	if err := c.claim(call); err != nil {
		return Message{}, err
	}
	defer c.end()
	ref, err := c.enterMessage(context.Background(), call, p, start)
	if err != nil {
		return Message{}, err
	}
	return Message{c, ref}, nil
}

// runMessage begins a message and waits for it, without letting another call in
// between.
func (c *Comm) runMessage(ctx context.Context, call string, p engine.Message, tag int, start starter) error {
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
func (c *Comm) enterMessage(ctx context.Context, call string, p engine.Message, start starter) (engine.Ref, error) {
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
func (m Message) Wait(ctx context.Context) error {
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
func (m Message) Test() (bool, error) {
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
func (m Message) resume(call string) (done bool, err error) {
	err = m.c.claim(call)
	if err == nil && m.ref.Done() {
		m.c.end()
		return true, nil
	}
	return false, err
}

func (c *Comm) waitMessage(ctx context.Context, p *engine.Message) error {
	if fault, failed := c.engine.WaitMessage(ctx, p, &c.waiter); failed {
		return c.failMessage(ctx, fault, p)
	}
	return nil
}
