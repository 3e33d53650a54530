package collective

import (
	"context"

	"github.com/treerun/treerun/internal/comm"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/internal/engine"
)

// A Message is a Send or a Recv under way. As with a Request, it moves on while
// any call, Wait or Test of its communicator runs on this rank. As many may be
// under way as one likes: to begin one more never waits. Wait or Test may be called
// again after the end, and need not be called. The zero value is done.
type Message struct{ message comm.Message }

// Send sends buf to rank to under a tag. It returns when buf may be used again,
// which says nothing about whether to has received it. Messages with the same
// tag between two ranks arrive in the order in which they were sent.
func Send[T Number](ctx context.Context, c *Comm, buf []T, to, tag int) error {
	return c.in.Messages.Run(ctx, "Send", messageOf(buf, to, tag), tag, c.in.Engine.StartSend)
}

// Recv receives into buf what rank from sends under a tag. The length and the
// element type are those of the Send; other ones are an ErrMismatch on all
// ranks.
// After an error the contents of buf are undefined.
func Recv[T Number](ctx context.Context, c *Comm, buf []T, from, tag int) error {
	return c.in.Messages.Run(ctx, "Recv", messageOf(buf, from, tag), tag, c.in.Engine.StartRecv)
}

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
	if setup.OverlapOf(bytesOf(send), bytesOf(recv)) != setup.Apart {
		return c.in.Messages.Error(name, "send and recv overlap")
	}
	if to == c.in.Rank && from == c.in.Rank {
		return sendToSelf(c, send, recv, tag)
	}
	return c.in.Messages.SendRecv(ctx, messageOf(recv, from, tag), messageOf(send, to, tag), tag)
}

// sendToSelf is a SendRecv of a rank with itself.
func sendToSelf[T Number](c *Comm, send, recv []T, tag int) error {
	const name = "SendRecv"
	if len(send) != len(recv) {
		return c.in.Messages.Error(name, "send has %d elements, recv %d", len(send), len(recv))
	}
	if err := c.in.Messages.CheckTag(name, tag); err != nil {
		return err
	}
	if err := c.in.Claim(name); err != nil {
		return err
	}
	defer c.in.End()
	copy(recv, send)
	return nil
}

// StartSend begins a Send; buf must not be changed until the Message is done.
func StartSend[T Number](c *Comm, buf []T, to, tag int) (Message, error) {
	m, err := c.in.Messages.Start("Send", messageOf(buf, to, tag), tag, c.in.Engine.StartSend)
	return Message{m}, err
}

// StartRecv begins a Recv; buf must not be used until the Message is done.
func StartRecv[T Number](c *Comm, buf []T, from, tag int) (Message, error) {
	m, err := c.in.Messages.Start("Recv", messageOf(buf, from, tag), tag, c.in.Engine.StartRecv)
	return Message{m}, err
}

// Wait returns when the message has been sent, or received, on this rank.
func (m Message) Wait(ctx context.Context) error { return m.message.Wait(ctx) }

// Test moves what is under way as far as it can, and reports whether the
// message is done. It does not wait.
func (m Message) Test() (bool, error) { return m.message.Test() }
