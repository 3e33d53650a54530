package devices

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Links are the links of a communicator.
type Links interface {
	// Abort makes a fault that of all of them, unless they have one, and returns the one that counts.
	Abort(transport.Fault) transport.Fault

	// Open opens links that live as long as the communicator, which has failed if it cannot.
	Open(ctx context.Context, during, purpose string, layout transport.Layout) (transport.Endpoint, error)
}

// Session is the device side of a communicator: the memory that its ranks' devices share, and the calls that are under
// way on this one's. The first device call makes it, and it is closed with the communicator.
type Session struct {
	c      *setup.Setup // the communicator
	links  Links
	Device *cuda.Device

	Graph     *topo.Graph
	Locations [][]device.Location // of the slots of links, by receiver and sender
	Given     *planner.ChosenPlan // the communicator's, for devices; nil: there is none
	Plans     *setup.Plans
	group     *device.Group

	kernels *kernels.Set
	staging cuda.Slice[uint8]
	maps    []*cuda.Mapping // of other ranks' staging memory
	block   block

	calls   calls
	log     hostLog
	cause   atomic.Pointer[error] // behind a fault of this rank's device
	waiting *waits.Wait
}

// Room waits until one more call may be under way, or out and another message.
func (d *Session) Room(ctx context.Context, out *Message) (err error) {
	backoff.Until(time.Millisecond, func() bool {
		var left int
		if left, err = d.calls.retire(); err != nil || left < MaxCalls-1 && d.log.hasRoom(out) {
			return true
		}
		_, failed := d.c.Endpoint.Aborted() // the caller looks
		if !failed {
			err = ctx.Err()
		}
		return failed || err != nil
	})
	return err
}

// Start publishes call id, and puts c, its part on the device, behind the work of stream s. The communicator is
// claimed, there is room.
func (d *Session) Start(s *cuda.Stream, kind plan.Kind, id call.ID, c *device.Call) error {
	d.log.note(id) // before the other ranks of the host can learn its number
	d.c.Engine.Calls.Enter(&id, &c.Header, 0, nil)
	bytes := int(id.Bytes())
	if kind.HasParts() {
		bytes *= d.c.Size
	}
	served, err := d.Plans.Planner.PlanFor(kind, int(id.Root), int64(bytes))
	if err != nil {
		return err
	}
	served.Ran = true
	i, there := served.Attached.(int)
	if !there {
		return fmt.Errorf("no plan for %v of %d bytes", kind, bytes)
	}
	if c.Op != 0 && kind != plan.Barrier { // which has nothing to add up
		// The driver may wait for the device to be idle. All calls under way there wait for steps which their ranks
		// have enqueued or will, as none waits for this one.
		_, busy := d.calls.oldest()
		if err := d.kernels.Load(!busy, kernels.Of(c.DType)); err != nil {
			return err
		}
	}
	c.Chunks = served.Chunks
	if err := d.calls.begin(pending{id: id, peer: -1}); err != nil {
		return err
	}
	if err := d.group.Enqueue(i, s, c); err != nil {
		return err
	}
	return d.calls.recordEnd(s)
}

// Message is a message that this rank sends to another one, or receives from it.
type Message struct {
	Buffer
	Peer int
}

// Exchange puts messages, either of which may be nil, behind the work of a stream, as Start does with a call.
func (d *Session) Exchange(s *cuda.Stream, t kernel.DType, out, in *Message) error {
	var transfers [2]*device.Transfer
	for i, m := range []*Message{in, out} {
		if m == nil {
			continue
		}
		p := d.log.number(m, t, i == 1)
		if err := d.calls.begin(p); err != nil {
			return err
		}
		transfers[i] = &device.Transfer{Addr: m.Addr, Peer: m.Peer, Header: p.id.Header()}
	}
	if err := d.group.Exchange(s, t, transfers[1], transfers[0]); err != nil {
		return err
	}
	return d.calls.recordEnd(s)
}

// Sync waits until the work of s is done, and returns a description of the call that it waited for and the stream's own
// error. Where that or a call has failed, the communicator has, too.
func (d *Session) Sync(ctx context.Context, s *cuda.Stream, call string) (during string, err error) {
	c := d.c
	during = call
	if p, found := d.calls.oldest(); found {
		during = p.String()
	}
	err = s.Synchronize(ctx)
	if err == nil {
		err = d.group.Err()
	}
	if err == nil {
		// The waits of streams may have passed even though ranks made different calls.
		d.log.abortOnMismatch()
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

// drainMax is the time that streams may take to come to their end after a failure.
const drainMax = 5 * time.Second
