package cuda

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/treerun/treerun/cuda/internal/driver"
	"github.com/treerun/treerun/internal/backoff"
)

// progress is a stream or an event: work whose end can be waited for.
type progress struct {
	*resource
	query func(driver.Context) driver.Result
}

func (d *Device) progress(c driver.Context, k kind, destroy, query func(driver.Context) driver.Result) *progress {
	p := &progress{query: query}
	p.resource = own(p, &resource{device: d, context: c, kind: k, release: destroy})
	return p
}

// Query reports whether all work is done (for an event: the work before it), and returns the error of the work if it
// failed. It does not wait.
func (p *progress) Query() (bool, error) {
	if err := p.Check(); err != nil {
		return false, err
	}
	r := p.query(p.context)
	runtime.KeepAlive(p)
	if r == driver.NotReady {
		return false, nil
	}
	return r == driver.Success, failed(p.device, kindOf[p.kind].query, "", r)
}

// Synchronize waits until all work that is there now is done, and returns the error of the work if it failed, or the
// error of ctx if that ended: then the work continues.
func (p *progress) Synchronize(ctx context.Context) error {
	err := poll(ctx, p.Query)
	if err != nil && ctx.Err() == err {
		return fmt.Errorf("cuda: wait for the %s of %s: %w", kindOf[p.kind].name, p.device, err)
	}
	return err
}

// poll waits until done returns true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	return backoff.Poll(200*time.Microsecond, ctx.Err, done)
}
