package engine

import (
	"fmt"

	"github.com/treerun/treerun/transport"
)

// Engine is what the programs of one communicator share: the rank's end of
// every link of the Layout, and the calls under way. One goroutine at a time
// may use it, but for what says otherwise.
type Engine struct {
	rank    int
	size    int
	ep      transport.Endpoint
	inbound []inbound
	history [past]transport.Header // the latest calls, by number

	reaches        bool  // ranks can read each other's own memory
	lendFrom       int64 // and do so from this size on
	oversubscribed bool  // ranks share cores

	linkBytes int // what all slots of a link hold

	chain uint64 // digest of all calls so far

	first, last *Call    // calls under way, oldest first; nil when there are none
	active      *Program // of first
	steps       uint64   // taken so far, over all calls: whether anything moves

	messages messages // messages under way

	windows [][]byte // scratch of one step: its operands
	pieces  [][]byte // and the parts of them that belong to one piece
	tiny    [tiny]byte
	scaled  []byte // scratch of one chunk: the operand that is multiplied beforehand
}

type inbound struct {
	src int
	r   transport.Receiver
}

// New looks up the links of rank in ep, whose Layout is layout. Messages
// from rank to rank travel on lane messageLane, -1 where there is none. oversubscribed
// says that ranks share cores, and lendFrom is the size, in bytes, from which payloads are read
// from their sender's own memory where ranks can: below it copies are quicker. All of it is the
// same on all ranks.
func New(ep transport.Endpoint, rank int, layout *transport.Layout, messageLane int, oversubscribed bool,
	lendFrom int64) (*Engine, error) {
	e := &Engine{rank: rank, size: layout.Size, ep: ep, oversubscribed: oversubscribed, lendFrom: lendFrom,
		linkBytes: layout.Slots * layout.SlotBytes}
	e.reaches, _ = ep.Reaches()
	if messageLane >= 0 {
		if err := e.openMessages(messageLane); err != nil {
			return nil, fmt.Errorf("engine: rank %d: lane %d: %w", rank, messageLane, err)
		}
	}
	for _, l := range layout.Links {
		if l.Dst != rank || l.Lane == messageLane {
			continue
		}
		r, err := ep.Receiver(l.Lane, l.Src)
		if err != nil {
			return nil, fmt.Errorf("engine: rank %d: lane %d from rank %d: %w", rank, l.Lane, l.Src, err)
		}
		e.inbound = append(e.inbound, inbound{l.Src, r})
	}
	return e, nil
}
