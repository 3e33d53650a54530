package meter

import (
	"context"
	"errors"

	"github.com/treerun/treerun/collective"
)

// running is a case that is ready to be called.
type running[T collective.Number] struct {
	collectiveOf[T]
	calls    []call[T]            // one, or those that are in flight together
	requests []collective.Request // of calls
	spread   *spread              // of a sparse collective, else nil
	again    func() error         // restores the input if the last call has changed it
}

// once makes one call and waits for it, or all calls and waits for all.
func (r *running[T]) once(ctx context.Context) error {
	return errors.Join(r.issue(ctx), r.settle(ctx))
}

// settle waits for calls on a GPU; those on the host are done.
func (r *running[T]) settle(ctx context.Context) error {
	if r.calls[0].stream == nil {
		return nil
	}
	return r.calls[0].c.SyncDevice(ctx, r.calls[0].stream)
}

// issue is once without the wait on a GPU, which several may have in common.
func (r *running[T]) issue(ctx context.Context) error {
	if r.calls[0].stream != nil {
		for i := range r.calls {
			if err := r.device(ctx, &r.calls[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(r.calls) == 1 {
		return r.run(ctx, &r.calls[0])
	}
	for i := range r.calls {
		request, err := r.start(&r.calls[i])
		if err != nil {
			return err
		}
		r.requests[i] = request
	}
	for _, request := range r.requests {
		if err := request.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
