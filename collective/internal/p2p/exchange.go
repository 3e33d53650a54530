package p2p

import "github.com/treerun/treerun/internal/kernel"

// Pass holds the bytes that this rank sends to a rank, and room for those that it receives from it. Where either is
// empty there is no message.
type Pass struct {
	Peer    int
	Out, In []byte
}

// Exchange begins the messages of passes, parts of the call of that name. A pass of this rank to itself is copied. An
// error is for transport.CallFault.
func (q *Queue) Exchange(name string, tag int32, passes []Pass) ([]*Message, error) {
	var all []*Message
	for _, ps := range passes {
		if ps.Peer == q.rank {
			copy(ps.In, ps.Out)
			continue
		}
		for i, buf := range [][]byte{ps.In, ps.Out} {
			if len(buf) == 0 {
				continue
			}
			p := &Message{Peer: ps.Peer, Tag: tag, DType: kernel.Uint8, Buf: buf, Part: name}
			all = append(all, p)
			if err := q.Start(p, i == 1); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Pending returns the first of messages that is not done, nil if all are.
func Pending(all []*Message) *Message {
	for _, p := range all {
		if !p.done {
			return p
		}
	}
	return nil
}
