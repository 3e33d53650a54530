package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/transport"
)

// asideTry is asideOpen for links that c can do without. Where any rank cannot open them,
// as it lacks memory or addresses, no rank has them, why says so on all, and c goes on.
func (c *Comm) asideTry(ctx context.Context, during, purpose string, layout transport.Layout) (ep transport.Endpoint,
	why, err error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.cancelOnFault(within, cancel)
	ep, why = c.connect(within, newInner(c, openAside), purpose, layout)
	_, lost := c.World.Failure()
	if _, failed := c.Endpoint.Aborted(); why != nil && (failed || lost != nil || ctx.Err() != nil) {
		return nil, nil, c.asideUnopened(ctx, during, "opening links", why)
	}
	mine, all := []byte{1}, make([]byte, c.Size)
	if why != nil {
		mine[0] = 0
	}
	if err = c.asideGather(ctx, during, mine, all); err == nil && why == nil && !slices.Contains(all, 0) {
		c.besides(ep)
		return ep, nil, nil
	}
	if why == nil && err == nil {
		why = fmt.Errorf("rank %d could not open them", slices.Index(all, 0))
	}
	if ep != nil {
		why = errors.Join(why, ep.Close())
	}
	if err != nil {
		return nil, nil, err
	}
	return nil, why, nil
}
