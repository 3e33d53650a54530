package engine

import (
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Announce publishes a call that this rank begins elsewhere than on these links, and returns its header. The owner of
// the links calls it.
func (e *Engine) Announce(id call.ID) (h call.Header) {
	e.enter(&id, &h, 0, nil)
	return h
}

// CheckCall checks whether the other ranks have made other calls than this one, or left before they entered mine, which
// is under way elsewhere, and aborts the Endpoint if so. Any goroutine may call it.
func (e *Engine) CheckCall(mine call.ID) {
	e.Check()
	if err := e.leftBefore(mine); err != nil {
		e.ep.Abort(transport.CallFault(err, e.rank, mine.String()))
	}
}
