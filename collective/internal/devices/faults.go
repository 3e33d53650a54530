package devices

import (
	"errors"
	"time"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/transport"
)

// Fail ends the communicator with an error of this rank's device, or of its group.
func (d *Session) Fail(during string, err error) {
	if d.group.Err() != nil && errors.Is(err, d.group.Err()) {
		d.groupFailed(err)
	} else {
		d.deviceFailed(during, err)
	}
	d.passFault()
}

// Cause returns the cause of a fault of this rank's device, nil without one.
func (d *Session) Cause() error {
	if cause := d.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// deviceFailed makes an error of this rank's device the fault of the communicator.
func (d *Session) deviceFailed(during string, err error) {
	d.cause.CompareAndSwap(nil, &err)
	d.links.Abort(transport.Faultf(transport.FaultDevice, d.c.Rank, "rank %d in %s: %v", d.c.Rank, during, err))
}

// groupFailed reports the error with which the group itself has failed.
func (d *Session) groupFailed(err error) {
	if errors.Is(err, device.ErrAborted) && d.awaitFault(faultGrace) {
		return // the rank that failed first has reported the cause
	}
	during := "a device call"
	if p, found := d.calls.oldest(); found {
		during = p.String()
	}
	var fault *device.EndpointFault
	var calls *device.Mismatch
	var link *device.LinkError
	switch c := d.c; {
	case errors.As(err, new(*cuda.Error)):
		d.deviceFailed(during, err) // the cause, and not another rank or the network
	case errors.As(err, &fault):
		d.links.Abort(fault.Fault)
	case errors.As(err, &calls):
		d.links.Abort(c.Engine.Calls.Fault(calls.Peer, calls.Theirs.ID(), calls.Mine.ID()))
	case errors.As(err, &link) && errors.Is(err, transport.ErrPeerClosed):
		d.links.Abort(transport.ClosedFault(link.Peer, c.Rank, during))
	case errors.As(err, &link):
		d.links.Abort(transport.Faultf(transport.FaultLink, c.Rank, "rank %d in %s: %v", c.Rank, during, err))
	default:
		d.deviceFailed(during, err)
	}
}

// faultGrace is the time that a rank that another one has stopped waits for the fault which that one reports. Where the
// World has lost a rank there will be a fault, which is waited for.
const faultGrace = 250 * time.Millisecond

// awaitFault waits for the communicator's fault.
func (d *Session) awaitFault(within time.Duration) (failed bool) {
	began := time.Now()
	backoff.Until(time.Millisecond, func() bool {
		_, lost := d.c.World.Failure()
		_, failed = d.c.Endpoint.Aborted()
		return failed || lost == nil && time.Since(began) > within
	})
	return failed
}

// passFault passes a fault of the communicator on to the group, and reports whether there is one.
func (d *Session) passFault() bool {
	fault, failed := d.c.Endpoint.Aborted()
	if failed {
		d.group.Abort(setup.ErrorOf(fault))
	}
	return failed
}
