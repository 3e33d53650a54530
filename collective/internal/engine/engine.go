package engine

import (
	"slices"

	"github.com/treerun/treerun/collective/internal/mismatch"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/transport"
)

// Engine is the state that the programs of one communicator share: the rank's ends of links, which are opened when a
// program or message first needs them, and the calls under way. One goroutine at a time may use it, except where
// documented otherwise.
type Engine struct {
	rank  int
	size  int
	ep    transport.Endpoint
	Calls *mismatch.Calls // the published calls of all ranks

	reach          []bool // by rank: whether it and this rank can read each other's own memory
	reaches        bool   // whether all ranks and this one can
	lending        Lending
	oversubscribed bool // whether ranks share cores

	slotBytes int // the size of a slot of a link
	linkBytes int // the size of all slots of a link

	first, last *Call    // calls under way, oldest first; nil when there are none
	active      *Program // the Program of first
	steps       uint64   // taken so far, over all calls: whether anything moves

	Messages *p2p.Queue

	Brief bool // whether Poll takes a turn of each track only, where there is more to do
	aside bool // whether PollAside runs
	wait  wait // the wait of the goroutine that uses the Engine
	any   *Any // what that waits for; nil: one call or message

	windows [][]byte // scratch of one step: its operands
	pieces  [][]byte // and the parts of them that belong to one piece
	tiny    [tiny]byte
	scaled  []byte // scratch of one chunk: the operand that is multiplied beforehand, or the value of a function

	broken error // the panic of a function of the caller, after which nothing moves
}

// Lending is when ranks read payloads from their sender's own memory, where they can.
type Lending struct {
	From       int64 // the size, in bytes, below which copies through slots are quicker
	SlotsAlone bool  // whether they are so for any size where each rank only sends or only receives

	Gain float64 // the measured gain: the time through slots divided by that of lent memory; 0: not known
}

// New makes the Engine of a rank, whose end of links ep is, of that layout. Messages from rank to rank travel on lane
// messageLane, which no plan does; -1: there are none. oversubscribed means that ranks share cores. All of it is the
// same on all ranks.
func New(ep transport.Endpoint, rank int, layout *transport.Layout, messageLane int, oversubscribed bool,
	lending Lending) *Engine {
	e := &Engine{rank: rank, size: layout.Size, ep: ep, Calls: mismatch.New(ep, rank, layout.Size),
		oversubscribed: oversubscribed, lending: lending,
		slotBytes: ep.MaxPayload(), linkBytes: layout.Slots * layout.SlotBytes}
	e.reach, e.reaches = make([]bool, layout.Size), true
	for r := range e.reach {
		if r != rank {
			e.reach[r], _ = ep.Reaches(r)
			e.reaches = e.reaches && e.reach[r]
		}
	}
	from, below := lending.messages(oversubscribed)
	e.Messages = p2p.New(ep, rank, e.Calls, messageLane, e.reach, from, below, oversubscribed)
	return e
}

// receiver opens the receiving end of a link.
func (e *Engine) receiver(lane, src int) (transport.Receiver, error) {
	r, err := e.ep.Receiver(lane, src)
	if link := (mismatch.Link{Src: src, Receiver: r}); err == nil && !slices.Contains(e.Calls.Links, link) {
		e.Calls.Links = append(e.Calls.Links, link)
	}
	return r, err
}
