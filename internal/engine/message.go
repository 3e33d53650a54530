package engine

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// messageKind stands in the Kind of the headers of messages between two ranks.
const messageKind = 255

// Message is one message between this rank and another: a Send or a Receive. It
// belongs to the Links from Start until it is done.
type Message struct {
	Peer  int
	Tag   int32
	DType kernel.DType
	Buf   []byte
	Part  string // what it is a part of, "" where it is the caller's own

	send  bool
	moved int  // bytes
	lends bool // a Send whose memory its peer reads where it lies
	done  bool
	had   int // bytes of Buf, once it is done
	next  *Message
}

// Done reports whether the message was sent, or received, as a whole.
func (p *Message) Done() bool { return p.done }

// String describes p for people.
func (p *Message) String() string {
	name := "Recv"
	if p.send {
		name = "Send"
	}
	if p.Part != "" {
		return p.Part
	}
	return fmt.Sprintf("%s (%d %s, tag %d)", name, max(len(p.Buf), p.had)/max(p.DType.Size(), 1), p.DType, p.Tag)
}

// Receives reports whether p is a Receive.
func (p *Message) Receives() bool { return !p.send }

func (p *Message) header() transport.Header {
	count := len(p.Buf) / p.DType.Size()
	return transport.Header{Kind: messageKind, Count: uint64(count), DType: uint8(p.DType), Root: p.Tag}
}

// messages is what a rank has of messages from rank to rank. Those to one peer
// are sent in the order of Start.
type messages struct {
	first, last *Message
	out         []transport.Sender   // by peer; nil for this rank
	in          []transport.Receiver // by peer
	inbox       []inbox              // by peer
	busy        []bool               // scratch of one poll: an earlier Send to the peer waits
	dry         []bool               // scratch of one poll: no more is read from the peer
	more        bool                 // scratch of one poll: a Receive may have more to read
	head        transport.Header     // scratch of one chunk: the message that it belongs to
}

func (k *Links) openMessages(lane int) error {
	p := &k.messages
	p.out, p.in = make([]transport.Sender, k.size), make([]transport.Receiver, k.size)
	p.inbox, p.busy, p.dry = make([]inbox, k.size), make([]bool, k.size), make([]bool, k.size)
	for r := range k.size {
		p.inbox[r].peer = r
		if r == k.rank {
			continue
		}
		var err error
		if p.out[r], err = k.ep.Sender(lane, r); err != nil {
			return err
		}
		if p.in[r], err = k.ep.Receiver(lane, r); err != nil {
			return err
		}
	}
	return nil
}

// StartSend and StartRecv begin message p. Preconditions: its peer is another
// rank, and the Links have a lane for messages. An error is for FailMessage.
func (k *Links) StartSend(p *Message) error { return k.startMessage(p, true) }

// StartRecv begins to receive; see StartSend.
func (k *Links) StartRecv(p *Message) error { return k.startMessage(p, false) }

func (k *Links) startMessage(p *Message, send bool) error {
	p.send, p.moved, p.done, p.had, p.next = send, 0, false, 0, nil
	p.lends = send && k.lendsOwn(messageKind, int64(len(p.Buf)))
	if !send {
		if err := k.messages.inbox[p.Peer].post(p); err != nil {
			return err
		}
	}
	if k.messages.last == nil {
		k.messages.first = p
	} else {
		k.messages.last.next = p
	}
	k.messages.last = p
	return k.poll()
}

// WaitMessage returns when p is done, or with the fault of the Endpoint when it
// cannot be, or when there is one by then.
func (k *Links) WaitMessage(ctx context.Context, p *Message, w *Waiter) (transport.Fault, bool) {
	if !p.done {
		if err := w.wait(ctx, k, &p.done, w.Spins); err != nil {
			return k.failWait(err, p.String(), w)
		}
	}
	return k.ep.Aborted()
}

// FailMessage makes err, which stopped p, the fault of the Endpoint, unless there
// is one, and returns the one that counts.
func (k *Links) FailMessage(err error, p *Message) (transport.Fault, bool) {
	return k.failWait(err, p.String(), &Waiter{})
}

// pollMessages moves all messages as far as they can go now, each by one lent chunk
// at a time: others wait for what this rank lends, and while it reads what they
// have lent it does not.
func (k *Links) pollMessages() error {
	for more := true; more && k.messages.first != nil; {
		k.messages.more = false
		if err := k.passMessages(); err != nil {
			return err
		}
		more = k.messages.more
	}
	return nil
}

func (k *Links) passMessages() error {
	clear(k.messages.busy)
	clear(k.messages.dry)
	var before, next *Message
	for p := k.messages.first; p != nil; p = next {
		next = p.next
		var err error
		if p.send {
			err = k.moveOut(p)
		} else {
			err = k.receive(p.Peer)
		}
		if err != nil {
			return err
		}
		if !p.done {
			before = p
			continue
		}
		if before == nil {
			k.messages.first = next
		} else {
			before.next = next
		}
		if k.messages.last == p {
			k.messages.last = before
		}
		p.had, p.Buf, p.next = len(p.Buf), nil, nil // the caller's
	}
	return nil
}

// moveOut sends what fits of p, unless an earlier message to its peer waits.
func (k *Links) moveOut(p *Message) error {
	if k.messages.busy[p.Peer] {
		return nil
	}
	link, slot, h := k.messages.out[p.Peer], k.ep.MaxPayload(), &k.messages.head
	*h = p.header()
	if p.lends {
		return k.lendOut(p, link)
	}
	for !p.done {
		n := min(slot, len(p.Buf)-p.moved)
		window, ok, err := link.TryReserve(n)
		if err != nil || !ok {
			k.messages.busy[p.Peer] = true
			return linkError(err, "sending to", int32(p.Peer))
		}
		copy(window, p.Buf[p.moved:])
		link.Commit(h)
		k.steps++
		p.moved += n
		p.done = p.moved == len(p.Buf)
	}
	return nil
}

// lendOut lends what the link takes of p. p is done when all has come back, and
// later messages to its peer wait for that: what they lend would be waited for
// with it, and that might not come before p is done.
func (k *Links) lendOut(p *Message, link transport.Sender) error {
	k.messages.busy[p.Peer] = true
	moved := p.moved
	helper, _ := link.(transport.Helper)
	helps := helper != nil && !k.crowded && !k.receiving()
	if helper != nil {
		helper.Helps(helps)
	}
	for p.moved < len(p.Buf) {
		n := min(lentBytes, len(p.Buf)-p.moved)
		_, ok, err := link.TryReserve(0)
		if err != nil {
			return linkError(err, "sending to", int32(p.Peer))
		}
		if !ok {
			break
		}
		link.Lend(&k.messages.head, p.Buf[p.moved:p.moved+n:p.moved+n])
		p.moved += n
		k.steps++
	}
	if p.moved > moved {
		k.ep.Fence()
		link.Wake()
	}
	if p.moved == len(p.Buf) && link.Returned() {
		if _, ok, err := link.TryReserve(0); err != nil || !ok { // the peer did not read all of it
			return linkError(err, "sending to", int32(p.Peer))
		}
		p.done = true
		k.messages.busy[p.Peer] = false
		k.steps++
		return nil
	}
	if !helps {
		return nil
	}
	ok, err := helper.Help()
	if ok {
		k.steps++
	}
	return linkError(err, "sending to", int32(p.Peer))
}

// receiving reports whether this rank waits for a message.
func (k *Links) receiving() bool {
	for p := k.messages.first; p != nil; p = p.next {
		if !p.send && !p.done {
			return true
		}
	}
	return false
}

// receive brings what has come from a peer, while a receive waits for it.
func (k *Links) receive(peer int) error {
	b, link, h := &k.messages.inbox[peer], k.messages.in[peer], &k.messages.head
	for b.open() && !k.messages.dry[peer] {
		k.messages.dry[peer] = true
		n, ok, err := k.head(link, h)
		if err != nil || !ok {
			return linkError(err, "receiving from", int32(peer))
		}
		if n > max(lentBytes, k.ep.MaxPayload()) {
			return fmt.Errorf("rank %d sent %d bytes at once", peer, n)
		}
		target, err := b.place(*h, n)
		if err != nil {
			return err
		}
		chunk, ok, err := k.payload(link, h, target)
		if err != nil || !ok {
			return linkError(err, "receiving from", int32(peer))
		}
		if len(chunk) != len(target) {
			return fmt.Errorf("rank %d sent %d bytes in place of %d", peer, len(chunk), len(target))
		}
		if len(chunk) > 0 && &chunk[0] != &target[0] {
			copy(target, chunk)
		}
		b.arrived()
		link.Release()
		k.steps++
		k.messages.dry[peer] = n > k.ep.MaxPayload() // others have their turn
		k.messages.more = k.messages.more || k.messages.dry[peer]
	}
	return nil
}

// head returns the length of what comes next on a link.
func (k *Links) head(link transport.Receiver, h *transport.Header) (int, bool, error) {
	if k.reaches {
		return link.(transport.LentReceiver).TryHead(h)
	}
	b, ok, err := link.TryPeek(h)
	return len(b), ok, err
}

// payload returns what comes next on a link, in into where it has to be brought
// from its sender's memory.
func (k *Links) payload(link transport.Receiver, h *transport.Header, into []byte) ([]byte, bool, error) {
	if k.reaches {
		return link.(transport.LentReceiver).TryPeekInto(h, into)
	}
	return link.TryPeek(h)
}

// messageMismatch says that a message does not fit its Receive.
type messageMismatch struct {
	peer   int
	theirs transport.Header
	mine   string
}

func (m *messageMismatch) Error() string {
	return fmt.Sprintf("rank %d sent %d %s with tag %d",
		m.peer, m.theirs.Count, kernel.DType(m.theirs.DType), m.theirs.Root)
}
