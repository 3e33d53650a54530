package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/call"
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

// Streams return before anything has moved, so a rank may be many calls ahead of another one. Each records its latest
// calls where the other ranks of its host can read them, and compares them now and then with theirs of the same number.
// Between hosts the headers of chunks are compared.

// MaxCalls is the largest number of device calls of a rank that may be under way, and the number of latest calls that
// can be compared.
const MaxCalls = call.Logged

// Session is the device side of a communicator: the memory that its ranks' devices share, and the calls that are under
// way on this one's. The first device call makes it, and it is closed with the communicator.
type Session struct {
	c      *setup.Setup // the communicator
	links  Links
	Device *cuda.Device
	local  []int // the ranks that share memory with this one, rising
	mine   int   // which of them this one is

	Graph  *topo.Graph
	Places [][]device.Place    // of the slots of links, by receiver and sender
	Given  *planner.ChosenPlan // the communicator's, for devices; nil: there is none
	Plans  *setup.Plans
	group  *device.Group

	kernels *kernels.Set
	staging cuda.Slice[uint8]
	maps    []*cuda.Mapping // of other ranks' staging memory
	block   block

	mu       sync.Mutex // guards the fields below
	calls    [MaxCalls]pending
	sent     []uint64 // by rank: messages to it
	received []uint64 // and from it
	noted    uint64   // the number of the latest call that is none of messages
	first    uint64   // number of the oldest call under way, counted from 1
	latest   uint64
	compared []uint64 // by rank of the host: the number of the first call that is not compared with its
	cause    error    // behind a fault of this rank's device
	waiting  *waits.Wait
}

// pending is one of the latest calls.
type pending struct {
	id    call.ID
	to    string // of a message: " to rank 1"
	lacks string // of a message: the peer's missing action
	sends bool   // of a message
	peer  int    // of a message, else -1
	since time.Time
	is    bool        // all of it is in the stream, and done recorded
	done  *cuda.Event // the caller's stream is through with it; kept for the next call here
}

// String names the call, for users.
func (p *pending) String() string { return p.id.String() + p.to }

func (d *Session) at(number uint64) *pending { return &d.calls[number%MaxCalls] }

// retire forgets the calls that are done, and reports how many are left.
func (d *Session) retire() (left int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.first <= d.latest {
		if !d.at(d.first).is {
			break
		}
		done, err := d.at(d.first).done.Query()
		if err != nil {
			return int(d.latest - d.first + 1), err
		}
		if !done {
			break
		}
		d.first++
	}
	return int(d.latest - d.first + 1), nil
}

// idle reports whether no call is under way, as far as retire has found.
func (d *Session) idle() bool {
	_, found := d.oldest()
	return !found
}

// oldest returns the oldest call under way.
func (d *Session) oldest() (p pending, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first > d.latest {
		return p, false
	}
	return *d.at(d.first), true
}

// Room waits until one more call may be under way, or out and another message.
func (d *Session) Room(ctx context.Context, out *Message) (err error) {
	backoff.Until(time.Millisecond, func() bool {
		var left int
		if left, err = d.retire(); err != nil || left < MaxCalls-1 && d.roomFor(out) {
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

// Note writes a call down for the other ranks of the host, before they can learn its number.
func (d *Session) Note(id call.ID) { d.block.calls(d.mine).Put(id) }

// Enter puts a call, which was noted, behind the work of its stream. The communicator is claimed, there
// is room.
func (d *Session) Enter(s *cuda.Stream, kind plan.Kind, root int, c *device.Call) error {
	bytes := int(c.Header.Count) * c.DType.Size()
	if kind.HasParts() {
		bytes *= d.c.Size
	}
	served, err := d.Plans.Planner.PlanFor(kind, root, int64(bytes))
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
		if err := d.kernels.Load(d.idle(), kernels.Of(c.DType)); err != nil {
			return err
		}
	}
	c.Chunks = served.Chunks
	if err := d.begins(pending{id: c.Header.ID(), peer: -1}); err != nil {
		return err
	}
	if err := d.group.Enqueue(i, s, c); err != nil {
		return err
	}
	return d.entered(s)
}

// begins notes that p is under way: to enqueue it may take until other ranks come to it.
func (d *Session) begins(p pending) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.at(d.latest + 1)
	if p.done = next.done; p.done == nil {
		if p.done, err = d.Device.NewEvent(false); err != nil {
			return err
		}
	}
	p.since = time.Now()
	*next = p
	d.latest++
	if p.peer < 0 {
		d.noted = p.id.Seq
	}
	return nil
}

// entered notes that all calls which have begun are in s.
func (d *Session) entered(s *cuda.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := d.latest; n >= d.first && !d.at(n).is; n-- {
		if err := s.Record(d.at(n).done); err != nil {
			return err
		}
		d.at(n).is = true
	}
	return nil
}

// Fail ends the communicator with an error of this rank's device, or of its group.
func (d *Session) Fail(during string, err error) {
	if d.group.Err() != nil && errors.Is(err, d.group.Err()) {
		d.groupFailed(err)
	} else {
		d.broken(during, err)
	}
	d.aborted()
}

// Cause returns the cause of a fault of this rank's device, nil without one.
func (d *Session) Cause() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

// broken makes an error of this rank's device the fault of the communicator.
func (d *Session) broken(during string, err error) {
	d.mu.Lock()
	if d.cause == nil {
		d.cause = err
	}
	d.mu.Unlock()
	d.links.Abort(transport.Faultf(transport.FaultDevice, d.c.Rank, "rank %d in %s: %v", d.c.Rank, during, err))
}

// groupFailed reports the error with which the group itself has failed.
func (d *Session) groupFailed(err error) {
	if errors.Is(err, device.ErrAborted) && d.awaitFault(faultGrace) {
		return // the rank that failed first has reported the cause
	}
	during := "a device call"
	if p, found := d.oldest(); found {
		during = p.String()
	}
	if f, is := d.relayFault(err, during); is {
		d.links.Abort(f)
		return
	}
	d.broken(during, err)
}

// relayFault returns the fault that ended a link between devices which goes through
// hosts, false where err is none of that: the cause is another rank then, or the
// network, and not this rank's device.
func (d *Session) relayFault(err error, during string) (f transport.Fault, is bool) {
	var told *device.EndpointFault
	var calls *device.Mismatch
	var link *device.LinkError
	var driver *cuda.Error
	switch c := d.c; {
	case errors.As(err, &driver):
		return f, false
	case errors.As(err, &told):
		return told.Fault, true
	case errors.As(err, &calls):
		return c.Engine.Calls.Fault(calls.Peer, calls.Theirs.ID(), calls.Mine.ID()), true
	case errors.As(err, &link) && errors.Is(err, transport.ErrPeerClosed):
		return transport.ClosedFault(link.Peer, c.Rank, during), true
	case errors.As(err, &link):
		return transport.Faultf(transport.FaultLink, c.Rank, "rank %d in %s: %v", c.Rank, during, err), true
	}
	return f, false
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

// look looks after the calls under way: a stream that waits for a rank which will never
// come is let go.
func (d *Session) look() {
	if d.aborted() {
		return
	}
	left, err := d.retire()
	switch {
	case err != nil:
		d.groupFailed(err)
		d.aborted()
	case left == 0:
		d.waiting.Clear()
		d.compareHost()
	default:
		d.compare()
		d.publish(d.waiting)
	}
}

// aborted passes a fault of the communicator on to the group.
func (d *Session) aborted() bool {
	fault, failed := d.c.Endpoint.Aborted()
	if failed {
		d.group.Abort(setup.ErrorOf(fault, nil))
	}
	return failed
}

// compare checks whether the other ranks have made the same calls, and have not left before one that is under way.
func (d *Session) compare() {
	p, found := d.oldest()
	if !d.compareHost() || !found {
		return
	}
	c := d.c
	for i, r := range d.local {
		if i != d.mine && d.block.stage(i).Load() != stageOpen && d.awaits(&p, r) {
			d.links.Abort(transport.ClosedFault(r, c.Rank, p.String()))
			return
		}
	}
	if p.peer >= 0 {
		p.id = call.ID{} // a rank that has left may have been in no call
	}
	c.Engine.Calls.CheckCall(p.id)
}

// awaits reports whether rank r is known not to have come to p.
func (d *Session) awaits(p *pending, r int) bool {
	i := slices.Index(d.local, r)
	switch st := d.c.Endpoint.Status(r); {
	case r == d.c.Rank:
		return false
	case p.peer < 0:
		return !st.Unknown && st.Call.Seq < p.id.Seq
	case r != p.peer:
		return false
	}
	if i < 0 {
		return d.group.AwaitsPeer(r, p.sends)
	}
	return d.block.notes(i, d.mine).count(!p.sends).Load() < p.id.Seq
}

// compareHost compares all calls of this rank with those that the other ranks of its
// host have made, unless that was done. A difference is the communicator's fault.
func (d *Session) compareHost() (same bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mine, upTo := d.block.calls(d.mine), d.noted
	for i, r := range d.local {
		if i == d.mine {
			continue
		}
		latest := func() uint64 { return d.c.Endpoint.Status(r).Call.Seq }
		own, other, differ, next := mine.Differs(d.block.calls(i), d.compared[i], upTo, latest)
		if differ {
			d.links.Abort(d.c.Engine.Calls.Fault(r, other, own))
			return false
		}
		d.compared[i] = next
		if !d.compareMessages(i, r) {
			return false
		}
	}
	return true
}

// publish names the ranks that have not come to the oldest call, and ends the communicator when that lasts too long.
func (d *Session) publish(wait *waits.Wait) {
	p, found := d.oldest()
	var late []waits.Lack
	for r := range d.c.Size {
		if found && d.awaits(&p, r) {
			late = append(late, waits.Lack{Rank: r, What: "to " + cmp.Or(p.lacks, "call it")})
		}
	}
	if len(late) == 0 {
		wait.Clear()
		return
	}
	if p.peer >= 0 && !slices.Contains(d.local, p.peer) {
		p.since = d.group.MovedAt(p.peer, p.sends, p.since)
	}
	if stalled := wait.Publish(p.String(), p.since, late); stalled != nil {
		d.links.Abort(transport.Fault{Kind: transport.FaultStalled, Rank: wait.Scope.Index(stalled.Rank),
			Text: stalled.Error()})
	}
}
