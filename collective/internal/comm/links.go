package comm

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Links are all links of a communicator: those of its engine, which Comm.Endpoint has, and those that Open has opened.
type Links struct {
	c      *Comm
	mu     sync.Mutex
	Opened []transport.Endpoint
}

// Open opens links that live as long as c, which has failed if it cannot.
func (l *Links) Open(ctx context.Context, during, purpose string, layout transport.Layout) (transport.Endpoint,
	error) {
	c := l.c
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	w := newInnerWorld(c, openExchange, call.Exchange)
	ep, err := c.Setup.Config.Connect(within, w, w.AllGather, purpose, layout)
	if err != nil {
		return nil, l.broken(ctx, during, "opening links", err)
	}
	l.mu.Lock()
	l.Opened = append(l.Opened, ep)
	l.mu.Unlock()
	c.OnClose(func() error { return l.Close(ep) })
	if fault, failed := c.Endpoint.Aborted(); failed {
		ep.Abort(fault)
	}
	return ep, nil
}

// Close closes links that Open has opened, unless they are closed.
func (l *Links) Close(ep transport.Endpoint) error {
	l.mu.Lock()
	i := slices.Index(l.Opened, ep)
	if i >= 0 {
		l.Opened = slices.Delete(l.Opened, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 {
		return nil
	}
	return ep.Close()
}

// broken makes it a fault of c that a step of a call could not be taken because of err.
func (l *Links) broken(ctx context.Context, during, step string, err error) error {
	c := l.c
	f := transport.Faultf(transport.FaultLink, -1, "rank %d in %s: %s: %v", c.Rank, during, step, err)
	switch _, lost := c.Setup.World.Failure(); {
	case lost != nil:
		f = setup.LostRank(c.Setup.World)
	case ctx.Err() != nil:
		f = transport.Faultf(transport.FaultOf(ctx.Err()), c.Rank, "rank %d gave up in %s: %v", c.Rank, during, err)
	}
	return c.Fault(f, during)
}

// status reports whether rank r has closed the communicator, as far as this rank can know, and why any links with it
// have ended, nil where none have.
func (l *Links) status(r int) (closed bool, ended error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.c.Endpoint.Status(r)
	ended = st.Ended
	for _, ep := range l.Opened {
		ended = cmp.Or(ended, ep.Status(r).Ended)
	}
	return st.Closed || st.Unknown, ended
}

// Abort makes f the fault of all links of c, unless they have one, and returns the one that counts. It ends waits for
// links to open: a rank that has learnt of a fault does not come to open any.
func (l *Links) Abort(f transport.Fault) transport.Fault {
	if f.Kind == transport.FaultCanceled || f.Kind == transport.FaultTimeout {
		select {
		case <-l.c.Setup.World.Failed(): // it may be why the context has ended
			f = setup.LostRank(l.c.Setup.World)
		default:
		}
	}
	l.c.Endpoint.Abort(f)
	if first, failed := l.c.Endpoint.Aborted(); failed {
		f = first
	}
	l.c.cancel()
	l.mu.Lock()
	defer l.mu.Unlock() // none of them is closed meanwhile
	for _, ep := range l.Opened {
		ep.Abort(f)
	}
	return f
}
