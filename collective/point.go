package collective

import (
	"context"
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/transport"
)

// A Message is a Send or a Recv under way. As with a Request, it moves on while
// any call, Wait or Test of its communicator runs on this rank. As many may be
// under way as one likes: to begin one more never waits. Wait or Test may be called
// again after the end, and need not be called. The zero value is done.
type Message struct {
	c   *Comm
	ref exec.Ref
}

// Send sends buf to rank to under a tag. It returns when buf may be used again,
// which says nothing about whether to has received it. Messages with the same
// tag between two ranks arrive in the order in which they were sent.
func Send[T Number](ctx context.Context, c *Comm, buf []T, to, tag int) error {
	return c.runPoint(ctx, "Send", pointOf(buf, to, tag), tag, c.links.StartSend)
}

// Recv receives into buf what rank from sends under a tag. The length and the
// element type are those of the Send; other ones are an ErrMismatch on all
// ranks.
func Recv[T Number](ctx context.Context, c *Comm, buf []T, from, tag int) error {
	return c.runPoint(ctx, "Recv", pointOf(buf, from, tag), tag, c.links.StartRecv)
}

func pointOf[T Number](buf []T, peer, tag int) exec.Point {
	return exec.Point{Peer: peer, Tag: int32(tag), DType: dtypeOf[T](), Buf: bytesOf(buf)}
}

// SendRecv sends send to rank to and receives recv from rank from, under the
// same tag, side by side: ranks that do this in a circle do not wait for each
// other for ever, however long the messages are. The slices do not overlap. to
// and from may be the same rank; where both are this one, send is copied.
func SendRecv[T Number](ctx context.Context, c *Comm, send []T, to int, recv []T, from, tag int) error {
	const name = "SendRecv"
	if overlapOf(bytesOf(send), bytesOf(recv)) != apart {
		return c.pointError(name, "send and recv overlap")
	}
	if to == c.rank && from == c.rank {
		return sendToSelf(c, send, recv, tag)
	}
	for _, peer := range []int{to, from} { // before either is begun
		if err := c.checkPoint(name, peer, tag); err != nil {
			return err
		}
	}
	if err := c.claim(name); err != nil {
		return err
	}
	defer c.end()
	in, err := c.enterPoint(ctx, name, pointOf(recv, from, tag), c.links.StartRecv)
	if err != nil {
		return err
	}
	out, err := c.enterPoint(ctx, name, pointOf(send, to, tag), c.links.StartSend)
	if err != nil {
		return err
	}
	if err := c.waitPoint(ctx, in.Point()); err != nil {
		return err
	}
	return c.waitPoint(ctx, out.Point())
}

// sendToSelf is a SendRecv of a rank with itself.
func sendToSelf[T Number](c *Comm, send, recv []T, tag int) error {
	const name = "SendRecv"
	if len(send) != len(recv) {
		return c.pointError(name, "send has %d elements, recv %d", len(send), len(recv))
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
	return c.startPoint("Send", pointOf(buf, to, tag), tag, c.links.StartSend)
}

// StartRecv begins a Recv; buf must not be used until the Message is done.
func StartRecv[T Number](c *Comm, buf []T, from, tag int) (Message, error) {
	return c.startPoint("Recv", pointOf(buf, from, tag), tag, c.links.StartRecv)
}

func (c *Comm) pointError(call, format string, v ...any) error {
	return fmt.Errorf("collective: %s on rank %d: %w: %s", call, c.rank, ErrArgument, fmt.Sprintf(format, v...))
}

// checkPoint refuses a message that this communicator cannot carry.
func (c *Comm) checkPoint(call string, peer, tag int) error {
	switch {
	case peer < 0 || peer >= c.size:
		return c.pointError(call, "rank %d of %d", peer, c.size)
	case peer == c.rank:
		return c.pointError(call, "rank %d is this one", peer)
	case c.plans.pointLane() < 0:
		return c.pointError(call, "messages are for %s", c.plans.pairLimit())
	}
	return c.checkTag(call, tag)
}

func (c *Comm) checkTag(call string, tag int) error {
	if tag < 0 || tag > math.MaxInt32 {
		return c.pointError(call, "tag %d, want 0..%d", tag, math.MaxInt32)
	}
	return nil
}

// startPoint begins a message.
func (c *Comm) startPoint(call string, p exec.Point, tag int, start func(*exec.Point) error) (Message, error) {
	if err := c.checkPoint(call, p.Peer, tag); err != nil {
		return Message{}, err
	}
	if err := c.claim(call); err != nil {
		return Message{}, err
	}
	defer c.end()
	ref, err := c.enterPoint(context.Background(), call, p, start)
	if err != nil {
		return Message{}, err
	}
	return Message{c, ref}, nil
}

// runPoint begins a message and waits for it, without letting another call in
// between.
func (c *Comm) runPoint(ctx context.Context, call string, p exec.Point, tag int, start func(*exec.Point) error) error {
	if err := c.checkPoint(call, p.Peer, tag); err != nil {
		return err
	}
	if err := c.claim(call); err != nil {
		return err
	}
	defer c.end()
	begun, err := c.enterPoint(ctx, call, p, start)
	if err != nil {
		return err
	}
	return c.waitPoint(ctx, begun.Point())
}

// enterPoint begins a message on the communicator, which is claimed, unless ctx
// has ended, which is a failure of the communicator even where the message
// would not have to wait.
func (c *Comm) enterPoint(ctx context.Context, call string, p exec.Point, start func(*exec.Point) error) (exec.Ref, error) {
	if err := ctx.Err(); err != nil {
		c.ep.Abort(transport.Fault{Rank: c.rank, Text: fmt.Sprintf("%srank %d gave up before %s of tag %d: %v", exec.FaultCanceled, c.rank, call, p.Tag, err)})
		fault, _ := c.ep.Aborted()
		return exec.Ref{}, c.failDuring(ctx, fault, call)
	}
	ref := c.messages.Add(p)
	err := start(ref.Point())
	fault, failed := c.ep.Aborted()
	if err != nil {
		fault, failed = c.links.FailPoint(err, ref.Point())
	}
	if failed {
		return exec.Ref{}, c.failPoint(ctx, fault, ref.Point())
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
	return m.c.waitPoint(ctx, m.ref.Point())
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
	err := c.links.Poll()
	fault, failed := c.ep.Aborted()
	if err != nil {
		fault, failed = c.links.FailPoint(err, m.ref.Point())
	}
	if failed && !m.ref.Done() {
		return false, c.failPoint(context.Background(), fault, m.ref.Point())
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

func (c *Comm) waitPoint(ctx context.Context, p *exec.Point) error {
	if fault, failed := c.links.WaitPoint(ctx, p, &c.waiter); failed {
		return c.failPoint(ctx, fault, p)
	}
	return nil
}
