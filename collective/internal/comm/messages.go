package comm

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/transport"
)

// Messages are the messages between ranks of a communicator.
type Messages struct {
	c     *Comm
	under p2p.Pool
	got   []p2p.Got   // memory for the results of later receives
	came  p2p.Got     // the result of the latest SendRecv
	probe p2p.Message // the latest Probe
}

// SendRecv sends out and receives in side by side, and returns the received message and how many bytes came.
func (m *Messages) SendRecv(ctx context.Context, in, out *p2p.Message, tag int) (p2p.Got, int, error) {
	const name = "SendRecv"
	if err := m.Check(name, out, tag, false); err != nil { // before either is begun
		return p2p.Got{}, 0, err
	}
	if err := m.begin(name, in, tag, true); err != nil {
		return p2p.Got{}, 0, err
	}
	defer m.c.End()
	switch none := (p2p.Got{From: p2p.NoRank, Tag: int32(tag)}); {
	case out.Peer == p2p.NoRank && in.Peer == p2p.NoRank:
		return none, 0, nil
	case out.Peer == p2p.NoRank:
		in.Got = new(p2p.Got)
		n, err := m.run(ctx, name, in, false)
		return *in.Got, n, err
	case in.Peer == p2p.NoRank:
		_, err := m.run(ctx, name, out, true)
		return none, 0, err
	}
	m.came, in.Got = p2p.Got{}, &m.came
	m.c.Tally.enter(status.RowRecv, len(in.Buf)) // which the Send is a part of
	var sent, begun p2p.Ref
	var n int
	var err error
	eager := len(out.Buf) <= p2p.EagerBytes // then the other end need not have begun
	polls := 1
	if eager {
		polls = m.c.Waiter.Spins
		sent, _, err = m.enter(ctx, name, out, true, 1)
	}
	if err == nil {
		begun, n, err = m.enter(ctx, name, in, false, polls)
	}
	if err == nil && !eager {
		sent, _, err = m.enter(ctx, name, out, true, 1)
	}
	if err == nil {
		n, err = m.finish(ctx, begun, n)
	}
	if err == nil {
		_, err = m.finish(ctx, sent, 0)
	}
	return m.came, n, err
}

// ownTag is the tag of messages that make up a call; callers' tags are not negative.
const ownTag = -1

// Check refuses a message that this communicator cannot carry. NoRank is allowed, and with anyOf AnySource and AnyTag.
func (m *Messages) Check(call string, p *p2p.Message, tag int, anyOf bool) error {
	source, tags, peer := "", "", p.Peer
	if anyOf {
		source, tags = " or AnySource", " or AnyTag"
	}
	switch {
	case p.Refused != "":
		return m.c.ArgumentError(call, "%s", p.Refused)
	case !anyOf && peer == p2p.AnySource:
		return m.c.ArgumentError(call, "AnySource is for receives and probes: want one rank")
	case !anyOf && tag == p2p.AnyTag:
		return m.c.ArgumentError(call, "AnyTag is for calls that only receive or probe: want a tag of 0..%d", math.MaxInt32)
	case peer < 0 && peer != p2p.NoRank && !(anyOf && peer == p2p.AnySource):
		return m.c.ArgumentError(call, "rank %d of %d, want 0..%d%s (hint: in Go the rank before this one is "+
			"(rank-1+size) %% size)", peer, m.c.Size, m.c.Size-1, source)
	case peer >= m.c.Size:
		return m.c.ArgumentError(call, "rank %d of %d", peer, m.c.Size)
	case m.c.Plans.Messages < 0:
		return m.c.ArgumentError(call, "messages are for %s", m.c.Plans.NoMessages())
	case tag > math.MaxInt32 || tag < 0 && !(anyOf && tag == p2p.AnyTag):
		return m.c.ArgumentError(call, "tag %d, want 0..%d%s", tag, math.MaxInt32, tags)
	}
	return nil
}

// begin claims the communicator for a call with a message that it can carry.
func (m *Messages) begin(call string, p *p2p.Message, tag int, anyOf bool) error {
	if err := m.Check(call, p, tag, anyOf); err != nil {
		return err
	}
	return m.c.Claim(call)
}

// Start begins a message, a Send or a Receive.
func (m *Messages) Start(call string, p *p2p.Message, tag int, send bool) (Request, error) {
	if err := m.begin(call, p, tag, p.Fewer); err != nil {
		return Request{}, err
	}
	defer m.c.End()
	if p.Peer == p2p.NoRank {
		return Request{Got: &p2p.Got{From: p2p.NoRank, Tag: p.Tag}}, nil
	}
	if p.Fewer {
		p.Got = m.newGot()
		p.Got.Uncounted = -len(p.Buf)
	}
	ref, _, err := m.enter(context.Background(), call, p, send, 1)
	switch {
	case err != nil:
		return Request{}, err
	case ref != p2p.Ref{}:
		return Request{c: m.c, number: ref.Number, slot: ref.Slot, Got: p.Got}, nil
	case send:
		return Request{Got: &sentAtOnce}, nil
	}
	p.Got.Uncounted = 0
	return Request{Got: p.Got}, nil
}

// sentAtOnce is the Got of Sends that were done at once: their Requests are not zero values.
var sentAtOnce p2p.Got

// newGot returns room for the result of a receive, which lives as long as its Request: many are made at once.
func (m *Messages) newGot() *p2p.Got {
	if len(m.got) == 0 {
		m.got = make([]p2p.Got, 64)
	}
	got := &m.got[0]
	m.got = m.got[1:]
	return got
}

// Run begins a message and waits for it, without letting another call in
// between. It returns how many bytes were moved.
func (m *Messages) Run(ctx context.Context, call string, p *p2p.Message, tag int, send bool) (int, error) {
	if err := m.begin(call, p, tag, p.Fewer); err != nil {
		return 0, err
	}
	defer m.c.End()
	if p.Peer == p2p.NoRank {
		return 0, nil
	}
	return m.run(ctx, call, p, send)
}

// Exchange begins the receives in and the sends out, messages of one tag, and waits for them, without letting another
// call in between. Those of no rank are left out.
func (m *Messages) Exchange(ctx context.Context, call string, in, out []p2p.Message, tag int) error {
	for _, p := range slices.Concat(in, out) {
		if err := m.Check(call, &p, tag, false); err != nil {
			return err
		}
	}
	if err := m.c.Claim(call); err != nil {
		return err
	}
	defer m.c.End()
	type begun struct {
		ref p2p.Ref
		n   int
	}
	all := make([]begun, 0, len(in)+len(out))
	for k, list := range [][]p2p.Message{in, out} {
		for i := range list {
			if list[i].Peer == p2p.NoRank {
				continue
			}
			ref, n, err := m.enter(ctx, call, &list[i], k == 1, 1)
			if err != nil {
				return err
			}
			all = append(all, begun{ref, n})
		}
	}
	for _, b := range all {
		if _, err := m.finish(ctx, b.ref, b.n); err != nil {
			return err
		}
	}
	return nil
}

// SendSync sends p, and waits until its receiver has received it.
func (m *Messages) SendSync(ctx context.Context, p *p2p.Message, tag int) error {
	const name = "SendSync"
	if err := m.begin(name, p, tag, false); err != nil {
		return err
	}
	defer m.c.End()
	if p.Peer == p2p.NoRank {
		return nil
	}
	receipt := p.Receipt(name)
	if err := m.c.Engine.Messages.Start(receipt, false); err != nil {
		return m.fail(transport.CallFault(err, m.c.Rank, receipt.String()), receipt)
	}
	sent, n, err := m.enter(ctx, name, p, true, 1)
	if err == nil {
		err = m.wait(ctx, receipt)
	}
	if err == nil {
		_, err = m.finish(ctx, sent, n)
	}
	return err
}

// RunNew makes p the Receive of the next message from its peer with its tag, or any, and runs it, without letting
// another call in between. room returns the memory for so many bytes.
func (m *Messages) RunNew(ctx context.Context, call string, p *p2p.Message, tag int,
	room func(n int64) []byte) (p2p.Got, error) {
	if err := m.begin(call, p, tag, true); err != nil {
		return p2p.Got{}, err
	}
	defer m.c.End()
	if p.Peer == p2p.NoRank {
		return p2p.Got{From: p2p.NoRank, Tag: p.Tag}, nil
	}
	m.c.Tally.enter(status.RowRecv, 0)
	g, _, err := m.look(ctx, call, p.Peer, tag, Forever, false)
	if err == nil {
		p.New, p.Call = true, call
		p.Peer, p.Tag, p.Buf = int(g.From), g.Tag, room(int64(g.Count)*int64(p.DType.Size()))
		_, err = m.run(ctx, call, p, false)
	}
	return g, err
}

// run begins a message on the communicator, which is claimed, and waits for it.
func (m *Messages) run(ctx context.Context, call string, p *p2p.Message, send bool) (int, error) {
	ref, n, err := m.enter(ctx, call, p, send, m.c.Waiter.Spins)
	if err == nil && ref == (p2p.Ref{}) && !m.c.Engine.Messages.Idle() {
		err = m.moveRest(p) // other ranks may wait for it
	}
	if err != nil {
		return 0, err
	}
	return m.finish(ctx, ref, n)
}

// moveRest moves the messages that are under way after p.
func (m *Messages) moveRest(p *p2p.Message) error {
	if err := m.c.Engine.Poll(); err != nil {
		return m.fail(transport.CallFault(err, m.c.Rank, m.c.Engine.Messages.Describe(p)), p)
	}
	return nil
}

// enter begins a message on the communicator, which is claimed, unless ctx has ended, which is a failure of the
// communicator even where the message would not have to wait. It returns the zero Ref and the number of moved bytes if
// the message is done, else the number that may move. For polls see p2p.Queue.Quick.
func (m *Messages) enter(ctx context.Context, call string, p *p2p.Message, send bool, polls int) (ref p2p.Ref, n int,
	err error) {
	if ctx.Err() != nil {
		return ref, 0, m.c.failure.gaveUp(ctx, call, fmt.Sprintf(" of tag %d", p.Tag))
	}
	row := rowOfMessage(send)
	n = len(p.Buf)
	m.c.Tally.enter(row, n)
	done, err := m.c.Engine.Quick(p, send, polls)
	if !done {
		p.Call = call
		ref = m.under.Add(p)
		err = m.c.Engine.StartMessage(ref.Message(), send)
	}
	begun := p
	if !done {
		begun = ref.Message()
	}
	fault, failed := m.c.Endpoint.Aborted()
	if err != nil {
		fault, failed = transport.CallFault(err, m.c.Rank, m.c.Engine.Messages.Describe(begun)), true
	}
	if failed {
		return p2p.Ref{}, 0, m.fail(fault, begun)
	}
	if ref.Done() {
		ref, n = p2p.Ref{}, begun.Bytes()
	}
	m.c.Tally.count(row, n)
	m.c.large = m.c.large || n >= asideFrom
	return ref, n, nil
}

// finish waits for a message that enter has begun, of up to n bytes, and returns how many moved.
func (m *Messages) finish(ctx context.Context, ref p2p.Ref, n int) (int, error) {
	if ref == (p2p.Ref{}) {
		return n, nil
	}
	p := ref.Message()
	if err := m.wait(ctx, p); err != nil || !p.Receives() {
		return 0, err
	}
	status.Add(&m.c.Tally.calls.Load().Rows[status.RowRecv].Bytes, p.Bytes()-n)
	return p.Bytes(), nil
}

func rowOfMessage(send bool) int {
	if send {
		return status.RowSend
	}
	return status.RowRecv
}

func (m *Messages) wait(ctx context.Context, p *p2p.Message) error {
	if fault, failed := m.c.Engine.WaitMessage(ctx, p, &m.c.Waiter); failed {
		return m.fail(fault, p)
	}
	return nil
}

// fail makes f the failure of the communicator during a message.
func (m *Messages) fail(f transport.Fault, during *p2p.Message) error {
	return m.c.failure.during(f, during.String(), undefinedOf(during))
}

// undefinedOf names the slice whose contents are undefined once a message has failed.
func undefinedOf(p *p2p.Message) string {
	switch {
	case p.IsReceipt(), p.New: // no slice of the caller's
	case p.Part != "", p.Call == "SendRecv", p.Call == "Exchange":
		return undefinedRecv
	case p.Receives():
		return "contents of buf are undefined"
	}
	return ""
}

// exchange exchanges messages that are parts of a call of that name, and waits for them. The communicator is claimed.
func (m *Messages) exchange(ctx context.Context, call string, passes []p2p.Pass) error {
	all, err := m.c.Engine.Messages.Exchange(call, ownTag, passes)
	if err != nil {
		return m.c.failure.during(transport.CallFault(err, m.c.Rank, call), call, undefinedRecv)
	}
	for _, p := range all {
		if err := m.wait(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
