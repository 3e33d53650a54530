package engine

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// OnDevice is set in the Kind of the header of a call that runs on a device: it
// is a call like the others, in their order, whose chunks do not go over these
// links.
const OnDevice = 0x40

// Varied is set in the Kind of the header of a call whose parts differ in length: Count is then that of all of them.
const Varied = 0x20

// rooted reports whether h is of a call in which only the root has the counts of all ranks: Count in its headers is the
// length of one rank's part.
func rooted(h call.Header) bool {
	kind := plan.Kind(h.Kind &^ Varied)
	return h.Kind&Varied != 0 && h.Kind != messageKind && (kind == plan.Gather || kind == plan.Scatter)
}

// kindOf returns the collective of a header.
func kindOf(h call.Header) (kind plan.Kind, onDevice bool) {
	return plan.Kind(h.Kind &^ (OnDevice | Varied)), h.Kind&OnDevice != 0 && h.Kind != messageKind
}

// DeviceMessage is the header of a message between devices: it is no call of all ranks, and its Seq is its number
// among the messages of two ranks in one direction.
func DeviceMessage(t kernel.DType, count uint64) call.Header {
	return call.Header{Kind: messageKind, Op: OnDevice, DType: uint8(t), Count: count}
}

// Announce publishes a call that this rank begins elsewhere than on these links,
// and completes its header. The owner of the links calls it.
func (e *Engine) Announce(h *call.Header) {
	c := Call{Header: *h}
	e.enter(&c)
	*h = c.Header
}

// CheckCall checks whether the other ranks have made other calls than this one, or left before they entered mine, which
// is under way elsewhere, and aborts the Endpoint if so. Any goroutine may call it.
func (e *Engine) CheckCall(mine call.Header) {
	e.Check()
	if err := e.leftBefore(mine); err != nil {
		e.ep.Abort(FaultOf(err, e.rank, Describe(mine)))
	}
}
