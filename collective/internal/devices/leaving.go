package devices

import (
	"errors"
	"slices"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/transport"
)

// Finish makes calls that are still under way a fault of the communicator, which
// this rank closes. d may be nil.
func (d *Session) Finish() {
	if d == nil {
		return
	}
	c := d.c
	d.log.unreceived()
	if left, err := d.calls.retire(); left > 0 || err != nil {
		p, _ := d.calls.oldest()
		if err != nil {
			d.deviceFailed(p.String(), err)
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
	d.passFault()
	return d.release()
}

// release frees all resources of d, step by step with the other ranks: no memory is freed while another device may read
// it.
func (d *Session) release() error {
	var errs []error
	if d.block.Mem != nil {
		d.block.stage(d.block.mine).Store(stageLeaving)
	}
	if d.group != nil {
		errs = append(errs, d.group.Close())
	}
	d.waiting.Close()
	errs = append(errs, d.calls.close())
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
	d.block.stage(d.block.mine).Store(stage)
	if stage == stageLeft && d.block.own == nil {
		return true // the owner of the block waits for all, and then frees it
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
		all = !slices.ContainsFunc(d.block.local, func(r int) bool {
			ended := r == gone || failed && setup.Gone(d.c.World, r)
			return !ended && d.block.stage(slices.Index(d.block.local, r)).Load() < stage
		})
		return all || time.Since(began) >= limit
	})
	return all || failed
}
