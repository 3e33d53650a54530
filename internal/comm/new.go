package comm

import (
	"context"

	"github.com/treerun/treerun/internal/comm/setup"
)

// New makes a communicator of all ranks of w: see New of package collective.
func New(ctx context.Context, w setup.World, opts ...setup.Option) (*Comm, error) {
	s, err := setup.New(ctx, w, opts...)
	if err != nil {
		return nil, err
	}
	c := &Comm{Setup: s, closed: make(chan struct{})}
	c.Messages.c, c.Devices.c = c, c
	s.Waiter.Watch.SetBusy(c.Busy.Load)
	c.watch.Go(func() { setup.AbortOnFailure(s.World, s.Endpoint, c.closed) })
	if c.Size > 1 {
		c.watch.Go(c.checkCalls)
	}
	return c, nil
}
