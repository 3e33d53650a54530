package p2p

import (
	"cmp"
	"fmt"
	"math"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// AnySource as the Peer of a Probe or Receive is every rank, this one, too; AnyTag as its Tag every tag that is not
// negative. Arithmetic on ranks and tags gives neither.
const (
	AnySource = math.MinInt32
	AnyTag    = math.MinInt32 + 1
)

// NoRank in place of a Peer is no rank: such messages do nothing, and no Queue has them.
const NoRank = math.MinInt32 + 2

// RankName names what a program has given as a rank.
func RankName(rank int) string {
	switch rank {
	case AnySource:
		return "AnySource"
	case NoRank:
		return "NoRank"
	}
	return fmt.Sprint("rank ", rank)
}

// Message is one message between this rank and another, or itself: a Send, a Receive, or a Probe, which looks for one.
// It belongs to the Queue from Start until it is done.
type Message struct {
	Peer  int
	Tag   int32
	DType kernel.DType
	Buf   []byte
	Part  string // the call that it is a part of, "" where it is the caller's own
	Fewer bool   // whether the message of a Receive may be shorter than Buf
	New   bool   // whether Buf is made for a message that was found: it is no slice of the caller's
	Sync  bool   // whether the receiver of a Send sends a receipt
	Got   *Got   // unless nil, a Receive writes its result here

	Refused string // unless "", why elements as those of Buf cannot be moved: DType is 0

	Patient bool   // whether a Probe continues where no rank is left that can send
	Claims  bool   // whether only the Receive that Take makes receives the message that a Probe finds
	Call    string // the function that makes it, "" where that is Send or Recv

	send   bool
	probe  bool
	any    bool     // whether a Receive from any rank waits for its message
	found  call.ID  // the message that a Probe has found
	taken  *arrival // that message, of a Probe that Claims and of its Receive
	moved  int      // bytes that have moved
	lends  bool     // whether the peer reads the memory of a Send where it lies
	kept   bool     // whether the memory of a Send is the Queue's, not the caller's
	behind []held   // the messages that follow a Send that is kept, oldest first
	done   bool
	had    int // the bytes of Buf, once the message is done
	next   *Message
}

// Got is the result of a Receive: the message, and the rank that sent it. Many are made.
type Got struct {
	From, Tag int32
	Count     int // of elements
	Uncounted int // the bytes of the message, less those that the caller has counted
}

// got returns the Got of message id, of which no bytes are counted.
func got(from int, id call.ID) Got {
	return Got{From: int32(from), Tag: id.Tag, Count: int(id.Count), Uncounted: int(id.Bytes())}
}

// add makes g that of message id.
func (g *Got) add(from int, id call.ID) {
	counted := g.Uncounted
	*g = got(from, id)
	g.Uncounted += counted
}

// DoneFlag returns where the Queue reports that p is done, for a goroutine that waits for that.
func (p *Message) DoneFlag() *bool { return &p.done }

// Done reports whether the message was sent, or received, as a whole; of one that is sent later only a copy is left.
func (p *Message) Done() bool { return p.done || p.kept }

// String describes p for users.
func (p *Message) String() string {
	name := "Recv"
	if p.send {
		name = "Send"
	}
	switch {
	case p.Part != "":
		return p.Part
	case p.probe:
		return p.Call + " (" + p.wanted() + ")"
	}
	what := fmt.Sprintf("tag %d", p.Tag)
	if p.Peer == AnySource || p.Tag == AnyTag {
		what = p.wanted()
	}
	if p.New { // the caller has named no length
		return fmt.Sprintf("%s (%s, %s)", p.Call, p.DType.Name(), what)
	}
	count := max(len(p.Buf), p.had) / max(p.DType.Size(), 1)
	return fmt.Sprintf("%s (%d %s, %s)", cmp.Or(p.Call, name), count, p.DType, what)
}

// Bytes returns how many bytes p has moved, once it is done.
func (p *Message) Bytes() int { return p.had }

// match makes p a Receive of message id from a peer, which may be shorter than p's buffer where that is
// allowed.
func (p *Message) match(peer int, id call.ID) {
	p.Peer, p.Tag = peer, id.Tag
	if p.Fewer && (id.DType == p.DType || id.Count == 0) && id.Count < p.id().Count {
		p.Buf = p.Buf[:int(id.Count)*p.DType.Size()]
	}
	if p.Sync = id.Sync; p.Got != nil {
		p.Got.add(peer, id)
	}
}

// Receipt returns the Receive of the receipt of p, a Send that is Sync. No message of a caller has its tag.
func (p *Message) Receipt(call string) *Message {
	p.Sync = true
	return &Message{Peer: p.Peer, Tag: receiptTag, DType: kernel.Uint8,
		Part: fmt.Sprintf("%s (%d %s, tag %d)", call, p.id().Count, p.DType, p.Tag)}
}

const receiptTag = -2

// IsReceipt reports whether p is the Receive of a receipt.
func (p *Message) IsReceipt() bool { return p.Tag == receiptTag }

// fits reports whether p can receive message id. Nothing is of every type.
func (p *Message) fits(id call.ID) bool {
	own := p.id()
	if id.Count == 0 {
		own.DType = id.DType
	}
	return own == id
}

// Receives reports whether p is a Receive.
func (p *Message) Receives() bool { return !p.send }

func (p *Message) id() call.ID {
	return call.ID{Kind: call.Message, Count: uint64(len(p.Buf) / p.DType.Size()), DType: p.DType, Tag: p.Tag,
		Sync: p.Sync}
}

// wanted describes, for users, the message that a Probe looks for.
func (p *Message) wanted() string {
	from, tag := "any rank", "any tag"
	if p.Peer != AnySource {
		from = fmt.Sprint("rank ", p.Peer)
	}
	if p.Tag != AnyTag {
		tag = fmt.Sprint("tag ", p.Tag)
	}
	return from + ", " + tag
}

// Found is the message that a Probe has found.
func (p *Message) Found() Got { return got(p.Peer, p.found) }

// find ends a Probe that has found message id.
func (p *Message) find(from int, id call.ID) { p.Peer, p.found, p.done = from, id, true }

// claim is find of a message that this Probe claims.
func (p *Message) claim(from int, a *arrival) {
	a.claimed, p.taken = true, a
	p.find(from, a.id)
}

// Take makes p the Receive of the message that probe, which Claims, has found.
func (p *Message) Take(probe *Message) {
	p.Peer, p.Tag, p.taken = probe.Peer, probe.found.Tag, probe.taken
}

// end ends p, and forgets the caller's memory.
func (p *Message) end() { p.had, p.Buf, p.next, p.done = len(p.Buf), nil, nil, true }

// tagged reports whether a message with a tag is one that is wanted with another, which may be AnyTag.
func tagged(tag, wanted int32) bool { return tag == wanted || wanted == AnyTag && tag >= 0 }
