package collective

import (
	"context"
	"time"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// A Message is a Send or a Recv under way. As with a Request, it moves on while
// any call, Wait or Test of its communicator runs on this rank. As many may be
// under way as one likes: to begin one more never waits. Wait or Test may be called
// again after the end, and need not be called. The zero value is done.
type Message struct{ message comm.Request }

// Send sends buf to rank to, which may be this one, under a tag from 0 to math.MaxInt32. It returns when buf may be
// used again, which says nothing about whether to has received it. Messages with the same tag between two ranks
// arrive in the order in which they were sent.
//
// A message of up to 64 KiB does not wait for its Recv: what finds no room in the links is kept in memory and sent
// later, also while this rank makes no call, and at the latest in Close. When a rank keeps 64 MiB, Send waits. A
// longer message waits until to receives it or, in another call that waits, has room for it in 64 MiB of its own.
func Send[T Number](ctx context.Context, c *Comm, buf []T, to, tag int) error {
	out := messageOf(buf, to, tag)
	_, err := c.inner().Messages.Run(ctx, "Send", &out, tag, true)
	return err
}

// AnySource in place of a rank, and AnyTag in place of a tag, make Recv, StartRecv and the Probes take messages of
// every rank, this one included, and of every tag. Arithmetic on ranks and tags does not give these numbers: -1 is an
// ErrArgument.
const (
	AnySource = engine.AnySource
	AnyTag    = engine.AnyTag
)

// Recv receives into buf what rank from, which may be this one, sends under a tag, and returns how many elements
// came. These may be fewer than buf holds; more, or those of another type, are an ErrMismatch on all ranks.
// With AnySource or AnyTag it takes the message that Probe would find.
// After an error the contents of buf are undefined.
func Recv[T Number](ctx context.Context, c *Comm, buf []T, from, tag int) (int, error) {
	in := messageOf(buf, from, tag)
	in.Fewer = true
	n, err := c.inner().Messages.Run(ctx, "Recv", &in, tag, false)
	return n / in.DType.Size(), err
}

// Status says what a message is that waits for its Recv.
type Status struct {
	Source, Tag int
	Count       int // elements, of the type that was sent
}

// Probe waits for a message from rank from, or AnySource, with a tag, or AnyTag, for which no Recv has been started,
// and returns its Status. The message stays until a Recv takes it: the next Recv from its Source with its Tag does.
// Messages of one rank with one tag are found in the order in which they were sent.
//
//	st, err := collective.Probe(ctx, c, collective.AnySource, tag)
//	buf := make([]float32, st.Count)
//	_, err = collective.Recv(ctx, c, buf, st.Source, st.Tag)
func Probe(ctx context.Context, c *Comm, from, tag int) (Status, error) {
	p, _, err := c.inner().Messages.Probe(ctx, "Probe", from, tag, comm.Forever)
	return statusOf(p), err
}

// TryProbe is Probe that does not wait: false when there is no such message yet, or none can come any more as its
// senders have closed.
func TryProbe(c *Comm, from, tag int) (Status, bool, error) {
	return ProbeFor(context.Background(), c, from, tag, 0)
}

// ProbeFor is Probe that waits for d at most, and then returns false. The communicator goes on, while the end of ctx
// ends it on all ranks. That no rank is left that can send is no error.
//
// Calls of other goroutines on c return ErrBusy while one waits in a Probe. A goroutine that serves other ranks needs
// a communicator of its own, which Dup makes, and looks between two calls of ProbeFor whether it has to end.
func ProbeFor(ctx context.Context, c *Comm, from, tag int, d time.Duration) (Status, bool, error) {
	name := "ProbeFor"
	if d == 0 {
		name = "TryProbe"
	}
	p, found, err := c.inner().Messages.Probe(ctx, name, from, tag, max(d, 0))
	if !found {
		return Status{}, false, err
	}
	return statusOf(p), true, nil
}

func statusOf(g engine.Got) Status {
	return Status{Source: g.From, Tag: int(g.Header.Root), Count: int(g.Header.Count)}
}

func messageOf[T Number](buf []T, peer, tag int) engine.Message {
	return engine.Message{Peer: peer, Tag: int32(tag), DType: dtypeOf[T](), Buf: kernel.BytesOf(buf)}
}

// SendRecv sends send to rank to and receives recv from rank from, under the
// same tag, side by side: ranks that do this in a circle do not wait for each
// other for ever, however long the messages are. It returns how many elements
// came, as Recv does. The slices do not overlap.
// After an error the contents of recv are undefined.
func SendRecv[T Number](ctx context.Context, c *Comm, send []T, to int, recv []T, from, tag int) (int, error) {
	if kernel.OverlapOf(kernel.BytesOf(send), kernel.BytesOf(recv)) != kernel.Apart {
		return 0, c.inner().ArgumentError("SendRecv", "send and recv overlap")
	}
	in := messageOf(recv, from, tag)
	in.Fewer = true
	out := messageOf(send, to, tag)
	n, err := c.inner().Messages.SendRecv(ctx, &in, &out, tag)
	return n / in.DType.Size(), err
}

// StartSend begins a Send; buf must not be changed until the Message is done.
func StartSend[T Number](c *Comm, buf []T, to, tag int) (Message, error) {
	out := messageOf(buf, to, tag)
	m, err := c.inner().Messages.Start("Send", &out, tag, true)
	return Message{m}, err
}

// StartRecv begins a Recv into buf, which must not be used until the Message is done; its Status then says what came.
// Of several for which a message is right, the one that began first gets it.
func StartRecv[T Number](c *Comm, buf []T, from, tag int) (Message, error) {
	in := messageOf(buf, from, tag)
	in.Fewer = true
	m, err := c.inner().Messages.Start("Recv", &in, tag, false)
	return Message{m}, err
}

// Status is what a StartRecv has received, once it is done. Of a StartSend it is the zero value.
func (m Message) Status() Status {
	if got := m.message.Got; got != nil {
		return statusOf(*got)
	}
	return Status{}
}

// Wait returns when the message has been sent, or received, on this rank.
func (m Message) Wait(ctx context.Context) error { return m.message.Wait(ctx) }

// Test moves what is under way as far as it can, and reports whether the
// message is done. It does not wait.
func (m Message) Test() (bool, error) { return m.message.Test() }
