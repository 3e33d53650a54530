package engine

import "github.com/treerun/treerun/collective/internal/p2p"

// Round is a part of a call that continues by messages: those that are exchanged at the same time, and a function that
// this rank runs after them, nil for none. An error of that function is for transport.CallFault.
type Round struct {
	Passes []p2p.Pass
	Then   func() error
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
				if c.under, err = e.Messages.Exchange(c.ID.Name(), tag, c.Rounds[0].Passes); err != nil {
					return err
				}
				e.steps++
			}
			if p := p2p.Pending(c.under); p != nil {
				if e.waits != nil && e.waits.left == 0 { // this rank waits for c, or for a call behind it
					e.Messages.Waited = p
				}
				return nil
			}
			if then := c.Rounds[0].Then; then != nil {
				if err := then(); err != nil {
					return err
				}
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

// roundsTag less the number of the call is the tag of the messages of its rounds; callers' tags are not negative.
const roundsTag = -2
