package engine

import (
	"context"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Any is a wait for the first of several calls and messages that is done.
type Any struct {
	Call     string         // the function that waits, for texts
	All      bool           // whether they are one that a wait for all of them waits for
	Reached  func() bool    // whether one of them is done
	Messages []*p2p.Message // those that are not
	Calls    bool           // whether calls are among them

	over bool
}

// Wait returns once one of them is done, or with the fault of the Endpoint, or without either once stop has ended, a
// context made of ctx.
func (a *Any) Wait(ctx, stop context.Context, e *Engine, w *Waiter) (transport.Fault, bool) {
	q := e.Messages
	e.any = a
	defer func() { e.any, q.Waited = nil, nil }()
	for a.over = a.Reached(); !a.over; a.over = a.Reached() {
		if q.Waited = nil; len(a.Messages) > 0 {
			q.Waited = a.Messages[0]
		}
		if err := w.wait(stop, e, &a.over, w.Spins); err != nil && err == stop.Err() && ctx.Err() == nil {
			w.Watch.Clear()
			break
		} else if err != nil {
			return e.failWait(err, e.doing(), w)
		}
	}
	return e.ep.Aborted()
}

// blockers returns the ranks of which any one may end the wait.
func (a *Any) blockers(e *Engine) (list []waits.Blocker) {
	for _, p := range a.Messages {
		list = append(list, e.Messages.Blockers(p)...)
	}
	if a.Calls {
		list = append(list, callBlockers(e)...)
	}
	for i := range list {
		list[i].Any = !a.All
	}
	return list
}
