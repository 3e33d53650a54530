package collective

import (
	"context"
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/kernel"
)

// A Message is a Send or a Recv in flight. Like a Request, it makes progress while any call, Wait or Test of its
// communicator runs on this rank, but not in the Start of another Message. Any number may be in flight: StartSend and
// StartRecv never wait. Wait or Test may be called again after the end, and need not be called. The zero value is done.
type Message struct{ message comm.Request }

// Send sends buf to rank to, which may be this rank, with a tag from 0 to math.MaxInt32. It returns when buf may be
// used again, which does not mean that rank to has received the message. Messages with the same tag between two ranks
// arrive in the order in which they were sent.
//
// A message of up to 64 KiB does not wait for its Recv: the part that finds no room in the links is kept in memory and
// sent later, also while this rank is not in a call, and in Close at the latest. Once a rank keeps 64 MiB, Send waits.
// A longer message waits until rank to receives it or, in another call that waits, has room for it in 64 MiB of its
// own.
func Send[T any](ctx context.Context, c *Comm, buf []T, to, tag int) error {
	out := messageOf(new(p2p.Message), buf, to, tag)
	_, err := c.inner().Messages.Run(ctx, "Send", out, tag, true)
	return err
}

// SendSync is a Send that returns once rank to has received the message, whatever its length is. A program that works
// with SendSync in place of Send depends on no memory for messages.
func SendSync[T any](ctx context.Context, c *Comm, buf []T, to, tag int) error {
	out := messageOf(new(p2p.Message), buf, to, tag)
	return c.inner().Messages.SendSync(ctx, out, tag)
}

// AnySource in place of a rank, and AnyTag in place of a tag, make Recv, RecvNew, RecvObject, StartRecv, RecvInit and
// the Probes accept messages from every rank, including this one, and with every tag. SendRecv accepts AnySource.
// Arithmetic on ranks and tags does not give these numbers: -1 is an ErrArgument.
const (
	AnySource = p2p.AnySource
	AnyTag    = p2p.AnyTag
)

// NoRank in place of a rank is no rank: a message to it or from it does nothing, a Recv returns 0, and a Probe finds at
// once that empty message. A rank at the edge of a grid then makes the same calls as the others. Their other arguments
// are checked as usual.
const NoRank = p2p.NoRank

// Recv receives a message with a tag from rank from, which may be this rank, into buf and returns the number of
// elements received. This may be less than the length of buf; more elements, or elements of another type, are an
// ErrMismatch on all ranks. With AnySource or AnyTag it receives the message that Probe would find. After an error the
// contents of buf are undefined.
func Recv[T any](ctx context.Context, c *Comm, buf []T, from, tag int) (int, error) {
	in := messageOf(new(p2p.Message), buf, from, tag)
	in.Fewer = true
	n, err := c.inner().Messages.Run(ctx, "Recv", in, tag, false)
	return n / sizeOf[T](), err
}

// RecvNew receives the next message from rank from, or AnySource, with a tag, or AnyTag, into a new slice, and returns
// that and the Status of the message, whose Count is the length of the slice. It is a Probe and a Recv, between which
// no other goroutine takes the message. A message of elements of another type is an ErrMismatch on all ranks.
func RecvNew[T any](ctx context.Context, c *Comm, from, tag int) ([]T, Status, error) {
	return recvNew[T](ctx, c, "RecvNew", from, tag)
}

func recvNew[T any](ctx context.Context, c *Comm, call string, from, tag int) ([]T, Status, error) {
	var buf []T
	in := messageOf(new(p2p.Message), buf, from, tag)
	g, err := c.inner().Messages.RunNew(ctx, call, in, tag, func(bytes int64) []byte {
		buf = make([]T, bytes/int64(sizeOf[T]()))
		return kernel.BytesOf(buf)
	})
	if err != nil {
		return nil, Status{}, err
	}
	st := statusOf(g)
	st.Count = len(buf) // for any T
	return buf, st, nil
}

// Status describes a message that waits for its Recv.
type Status struct {
	Source, Tag int
	Count       int // of RecvNew and SendRecv: elements received; else elements sent or, where they are no Element, bytes
}

// String describes s: "rank 1, tag 9, count 3".
func (s Status) String() string {
	return fmt.Sprintf("%s, tag %d, count %d", p2p.RankName(s.Source), s.Tag, s.Count)
}

// Probe waits for a message from rank from, or AnySource, with a tag, or AnyTag, that no StartRecv waits for, and
// returns its Status. The message stays until the next Recv from its Source with its Tag, which receives it. Messages
// from one rank with one tag are found in the order in which they were sent. A deadline of ctx ends the communicator on
// all ranks: ProbeFor waits for a time.
//
//	st, err := collective.Probe(ctx, c, collective.AnySource, tag)
//	buf := make([]float32, st.Count)
//	_, err = collective.Recv(ctx, c, buf, st.Source, st.Tag)
func Probe(ctx context.Context, c *Comm, from, tag int) (Status, error) {
	p, _, err := c.inner().Messages.Probe(ctx, "Probe", from, tag, comm.Forever)
	return statusOf(p), err
}

// TryProbe is like Probe but does not wait: it returns false when there is no such message yet, or when none can arrive
// any more because the senders have closed.
func TryProbe(c *Comm, from, tag int) (Status, bool, error) {
	return probeFor(context.Background(), "TryProbe", c, from, tag, 0)
}

// ProbeFor is like Probe but waits for at most d, and then returns false; the communicator stays usable. If ctx ends,
// however, the communicator ends on all ranks. It is no error if no rank is left that can send.
//
// Calls of other goroutines on c return ErrBusy while one waits in a Probe. A goroutine that serves other ranks needs a
// communicator of its own, from Dup, and checks between two calls of ProbeFor whether it has to end.
func ProbeFor(ctx context.Context, c *Comm, from, tag int, d time.Duration) (Status, bool, error) {
	return probeFor(ctx, "ProbeFor", c, from, tag, d)
}

func probeFor(ctx context.Context, name string, c *Comm, from, tag int, d time.Duration) (Status, bool, error) {
	p, found, err := c.inner().Messages.Probe(ctx, name, from, tag, max(d, 0))
	if !found {
		return Status{}, false, err
	}
	return statusOf(p), true, nil
}

func statusOf(g p2p.Got) Status {
	return Status{Source: int(g.From), Tag: int(g.Tag), Count: g.Count}
}

// messageOf sets p to a message, in place: it is large.
func messageOf[T any](p *p2p.Message, buf []T, peer, tag int) *p2p.Message {
	p.Peer, p.Tag, p.DType, p.Buf = peer, int32(tag), dtypeOf[T](), kernel.BytesOf(buf)
	if p.DType == 0 {
		p.Refused = unmovable[T]()
	}
	return p
}

// SendRecv sends send to rank to and receives recv from rank from, or AnySource, with the same tag, both at once: ranks
// that do this in a cycle do not deadlock, whatever the length of the messages. It returns the Status of the received
// message, whose Count is in elements of T and may be less than the length of recv. The slices do not overlap. After an
// error the contents of recv are undefined.
func SendRecv[T any](ctx context.Context, c *Comm, send []T, to int, recv []T, from, tag int) (Status, error) {
	if kernel.OverlapOf(kernel.BytesOf(send), kernel.BytesOf(recv)) != kernel.Apart {
		return Status{}, c.inner().ArgumentError("SendRecv", "send and recv overlap")
	}
	in := messageOf(new(p2p.Message), recv, from, tag)
	in.Fewer = true
	out := messageOf(new(p2p.Message), send, to, tag)
	g, n, err := c.inner().Messages.SendRecv(ctx, in, out, tag)
	if err != nil {
		return Status{}, err
	}
	st := statusOf(g)
	st.Count = n / sizeOf[T]() // for any T
	return st, nil
}

// StartSend begins a Send; buf must not be changed until the Message is done.
func StartSend[T any](c *Comm, buf []T, to, tag int) (Message, error) {
	out := messageOf(new(p2p.Message), buf, to, tag)
	m, err := c.inner().Messages.Start("StartSend", out, tag, true)
	return Message{m}, err
}

// StartRecv begins a Recv into buf, which must not be used until the Message is done; its Status then describes the
// received message. If several match a message, the one that began first receives it.
func StartRecv[T any](c *Comm, buf []T, from, tag int) (Message, error) {
	in := messageOf(new(p2p.Message), buf, from, tag)
	in.Fewer = true
	m, err := c.inner().Messages.Start("StartRecv", in, tag, false)
	return Message{m}, err
}

// Status returns the status of the received message, once a StartRecv is done. For a StartSend it is the zero value.
func (m Message) Status() Status {
	if got := m.message.Got; got != nil {
		return statusOf(*got)
	}
	return Status{}
}

// Wait returns when the message has been sent, or received, on this rank.
func (m Message) Wait(ctx context.Context) error { return m.message.Wait(ctx) }

// Test makes progress on calls in flight without waiting, and reports whether the message is done.
func (m Message) Test() (bool, error) { return m.message.Test() }

// PersistentMessage is a Send or a Recv whose arguments are checked once and which then runs many times, always with
// the same slice. It holds no resources and needs no Close.
type PersistentMessage struct {
	c       *Comm
	name    string
	message p2p.Message
	tag     int
	send    bool
}

// Start begins the message, as StartSend or StartRecv does. Those of one PersistentMessage must not overlap, as they
// use the same slice.
func (p *PersistentMessage) Start() (Message, error) {
	if p.name == "" {
		return Message{}, fmt.Errorf("collective: PersistentMessage: %w: it is the zero value (hint: SendInit and RecvInit "+
			"make one)", ErrArgument)
	}
	begun := p.message
	m, err := p.c.inner().Messages.Start(p.name, &begun, p.tag, p.send)
	return Message{m}, err
}

// SendInit prepares a Send. Its receiver may be in any Recv.
func SendInit[T any](c *Comm, buf []T, to, tag int) (*PersistentMessage, error) {
	return messageInit(c, "SendInit", buf, to, tag, true)
}

// RecvInit prepares a Recv. Its sender may be in any Send.
func RecvInit[T any](c *Comm, buf []T, from, tag int) (*PersistentMessage, error) {
	return messageInit(c, "RecvInit", buf, from, tag, false)
}

func messageInit[T any](c *Comm, name string, buf []T, peer, tag int, send bool) (*PersistentMessage, error) {
	p := &PersistentMessage{c: c, name: name, tag: tag, send: send}
	messageOf(&p.message, buf, peer, tag).Fewer = !send
	if err := c.inner().Messages.Check(name, &p.message, tag, !send); err != nil {
		return nil, err
	}
	return p, nil
}
