package engine

import "github.com/treerun/treerun/internal/kernel"

// Round is a part of a call that continues by messages: those that are exchanged at the same time, and a function that
// this rank runs after them. An error of that function is for transport.CallFault.
type Round struct {
	Passes []Pass
	Then   func() error
}

// Pass holds the bytes that this rank sends to a rank, and room for those that it receives from it. Where either is
// empty there is no message.
type Pass struct {
	Peer    int
	Out, In []byte
}

// Exchange begins the messages of passes, parts of the call of that name, which Poll moves. A pass of this rank to
// itself is copied. An error is for transport.CallFault.
func (e *Engine) Exchange(name string, tag int32, passes []Pass) ([]*Message, error) {
	var all []*Message
	for _, ps := range passes {
		if ps.Peer == e.rank {
			copy(ps.In, ps.Out)
			continue
		}
		for i, buf := range [][]byte{ps.In, ps.Out} {
			if len(buf) == 0 {
				continue
			}
			p := &Message{Peer: ps.Peer, Tag: tag, DType: kernel.Uint8, Buf: buf, Part: name}
			all = append(all, p)
			if err := e.beginMessage(p, i == 1); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// moveRounds moves the calls that are in their rounds, one after the other: so a link carries no message of a call
// before those of an earlier one, whose receiver would wait forever.
func (e *Engine) moveRounds() (err error) {
	for len(e.rounds) > 0 {
		c := e.rounds[0]
		for ; len(c.Rounds) > 0; c.Rounds = c.Rounds[1:] {
			if !c.round {
				c.round = true
				tag := roundsTag - int32(c.ID.Seq&(1<<30-1))
				if c.under, err = e.Exchange(c.ID.Name(), tag, c.Rounds[0].Passes); err != nil {
					return err
				}
				e.steps++
			}
			if !e.passed(c.under, e.waits != nil && e.waits.left == 0) { // it waits for c, or for a call behind it
				return nil
			}
			if err := c.Rounds[0].Then(); err != nil {
				return err
			}
			c.round = false
			e.steps++
		}
		c.finish()
		e.rounds[0] = nil
		e.rounds = e.rounds[1:]
		e.steps++
	}
	return nil
}

// passed reports whether all messages of a round are done. If this rank waits for the round, it waits for the first
// message that is not done.
func (e *Engine) passed(round []*Message, waits bool) bool {
	for _, p := range round {
		if !p.done {
			if waits {
				e.messages.waited = p
			}
			return false
		}
	}
	return true
}

// roundsTag less the number of the call is the tag of the messages of its rounds; callers' tags are not negative.
const roundsTag = -2
