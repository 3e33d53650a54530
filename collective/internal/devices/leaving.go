package devices

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/transport"
)

// Sync waits until the work of s is done, and returns a description of the call that it waited for and the stream's own
// error. Where that or a call has failed, the communicator has, too.
func (d *Session) Sync(ctx context.Context, s *cuda.Stream, call string) (during string, err error) {
	c := d.c
	during = call
	if p, found := d.oldest(); found {
		during = p.String()
	}
	err = s.Synchronize(ctx)
	if err == nil {
		err = d.group.Err()
	}
	if err == nil {
		// The waits of streams may have passed even though ranks made different calls.
		d.compareHost()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		d.links.Abort(transport.Faultf(transport.FaultOf(ctx.Err()), c.Rank, "rank %d gave up in %s: %v", c.Rank, during,
			ctx.Err()))
		d.group.Abort(err)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainMax)
		defer cancel()
		_ = s.Synchronize(within) // the caller's memory is its own again
	default:
		d.groupFailed(err)
	}
	return during, err
}

// unreceived makes a message that a rank of this host has sent, and this one leaves, a fault: its sender would wait for
// it to be read.
func (d *Session) unreceived() {
	for i, r := range d.local {
		its := d.block.notes(i, d.mine)
		if n := d.received[r] + 1; its.count(true).Load() >= n {
			id, _ := its.log(true).At(n)
			d.links.Abort(transport.Faultf(transport.FaultClosed, d.c.Rank,
				"rank %d closed its communicator before it had received %v from rank %d", d.c.Rank, id, r))
		}
	}
}

// drainMax is the time that streams may take to come to their end after a failure.
const drainMax = 5 * time.Second

// Finish makes calls that are still under way a fault of the communicator, which
// this rank closes. d may be nil.
func (d *Session) Finish() {
	if d == nil {
		return
	}
	c := d.c
	d.unreceived()
	if left, err := d.retire(); left > 0 || err != nil {
		p, _ := d.oldest()
		if err != nil {
			d.broken(p.String(), err)
		} else {
			d.links.Abort(transport.Faultf(transport.FaultClosed, c.Rank,
				"rank %d closed its communicator during %s; call SyncDevice before Close", c.Rank, p.String()))
		}
	}
}

// Close ends the device side. The session d, which may be nil, must not be in use any more.
func (d *Session) Close() error {
	if d == nil {
		return nil
	}
	d.aborted()
	return d.release()
}

// release frees all resources of d, step by step with the other ranks: no memory is freed while another device may read
// it.
func (d *Session) release() error {
	var errs []error
	if d.block.Mem != nil {
		d.block.stage(d.mine).Store(stageLeaving)
	}
	if d.group != nil {
		errs = append(errs, d.group.Close())
	}
	d.waiting.Close()
	for i := range d.calls {
		if e := d.calls[i].done; e != nil {
			errs = append(errs, e.Close())
		}
	}
	for _, m := range d.maps {
		errs = append(errs, m.Close())
	}
	if d.leave(stageUnmapped) && d.staging.Len() > 0 {
		errs = append(errs, d.staging.Free())
	}
	errs = append(errs, d.block.detach())
	if d.leave(stageLeft) { // else a device may still see it
		errs = append(errs, d.block.Free())
	}
	if d.kernels != nil {
		errs = append(errs, d.kernels.Close())
	}
	return errors.Join(errs...)
}

// leaveMax is the time that a rank that leaves waits for the others, which share a GPU or have much to give back;
// lostMax, where the communicator has failed: ranks may have ended without the World's knowledge. Where one has not
// left by then, the driver does not allow this rank to free memory that the other one has mapped: it stays until the
// process ends.
const (
	leaveMax = 5 * time.Second
	lostMax  = 100 * time.Millisecond
)

// leave publishes that this rank has reached a stage, and waits until the other ranks of its host have, or those that
// remain after a failure. It reports whether they did.
func (d *Session) leave(stage uint64) bool {
	if d.block.Mem == nil {
		return true
	}
	d.block.stage(d.mine).Store(stage)
	if stage == stageLeft && d.block.own == nil {
		return true // whose the block is waits, and frees it: it is not looked at any more
	}
	fault, failed := d.c.Endpoint.Aborted()
	limit, gone := leaveMax, -1
	if failed {
		limit = lostMax
		if fault.Kind == transport.FaultLost {
			gone = fault.Rank
		}
	}
	began, all := time.Now(), false
	backoff.Until(2*time.Millisecond, func() bool {
		all = !slices.ContainsFunc(d.local, func(r int) bool {
			ended := r == gone || failed && setup.Gone(d.c.World, r)
			return !ended && d.block.stage(slices.Index(d.local, r)).Load() < stage
		})
		return all || time.Since(began) >= limit
	})
	return all || failed
}
