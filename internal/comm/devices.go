package comm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// devices is the device side of a communicator: what its ranks' devices share, and
// the calls that are under way on this one's. The first device call makes it, and
// it is closed with the communicator.
type devices struct {
	c      *Comm
	device *cuda.Device
	local  []int // the ranks that share memory with this one, rising
	mine   int   // which of them this one is

	Graph            *topo.Graph
	given            *planner.Given // the communicator's, for devices; nil: there is none
	Plans            *plans
	slots, slotBytes int // of the links between devices
	group            *device.Group

	kernels *device.KernelSet
	staging cuda.Slice[uint8]
	maps    []*cuda.Mapping // of other ranks' staging memory
	block   *device.Block
	sources []int // the ranks whose memory this rank's device reads, rising

	registered    []*DeviceMemory
	registrations uint64 // so far

	mu       sync.Mutex // guards what follows
	calls    [InFlight]deviceCall
	first    uint64 // number of the oldest call under way, counted from 1
	latest   uint64
	compared []uint64 // by rank of the host: the number of the first call that is not compared with its
	cause    error    // behind a fault of this rank's device
	kick     chan struct{}
	stop     chan struct{}
	watching sync.WaitGroup
}

// deviceCall is one of the latest calls.
type deviceCall struct {
	header transport.Header
	since  time.Time
	done   *cuda.Event // the caller's stream is through with it; kept for the next call here
}

func (d *devices) at(number uint64) *deviceCall { return &d.calls[number%InFlight] }

// retire forgets the calls that are done, and reports how many are left.
func (d *devices) retire() (left int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.first <= d.latest {
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

// oldest returns the header of the oldest call under way, and since when it is.
func (d *devices) oldest() (h transport.Header, since time.Time, any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first > d.latest {
		return h, since, false
	}
	return d.at(d.first).header, d.at(d.first).since, true
}

// room waits until one more call may be under way.
func (d *devices) room(ctx context.Context) error {
	pause := 50 * time.Microsecond
	for {
		left, err := d.retire()
		if err != nil || left < InFlight-1 {
			return err
		}
		if _, failed := d.c.Endpoint.Aborted(); failed {
			return nil // the caller looks
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
}

// enter puts a call behind the work of its stream. The communicator is claimed, there
// is room, and lend has told where the buffers lie.
func (d *devices) enter(k *DeviceArgs, h transport.Header, lent *device.Lent, place uint64) error {
	s, a := k.stream, &k.Args
	bytes := a.Count * a.DType.Size()
	if a.Kind.HasParts() {
		bytes *= d.c.Size
	}
	served, err := d.Plans.Serve(a.Kind, a.Root, int64(bytes))
	if err != nil {
		return err
	}
	served.Ran = true
	i, there := served.Attached.(int)
	if !there {
		return fmt.Errorf("no plan for %v of %d bytes", a.Kind, bytes)
	}
	d.block.Ring(d.mine).Put(&h, place)
	err = d.group.Program(i).Enqueue(s, &device.Call{
		Header: h, In: k.In.addr, Out: k.Out.addr, Lent: lent, Work: a.Work, Chunk: served.Chunks.Max,
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	call := d.at(d.latest + 1)
	if call.done == nil {
		if call.done, err = d.device.NewEvent(false); err != nil {
			return err
		}
	}
	if err := s.Record(call.done); err != nil {
		return err
	}
	d.latest++
	call.header, call.since = h, time.Now()
	select {
	case d.kick <- struct{}{}:
	default:
	}
	return nil
}

// broken makes an error of this rank's device the fault of the communicator.
func (d *devices) broken(during string, err error) {
	d.mu.Lock()
	if d.cause == nil {
		d.cause = err
	}
	d.mu.Unlock()
	d.c.abort(transport.Fault{Rank: d.c.Rank,
		Text: fmt.Sprintf("%srank %d in %s: %v", faultDevice, d.c.Rank, during, err)})
}

// groupFailed is told why the group has failed by itself.
func (d *devices) groupFailed(err error) {
	if errors.Is(err, device.ErrAborted) && d.awaitFault(faultGrace) {
		return // whoever was the first has told why
	}
	during := "a device call"
	if h, _, any := d.oldest(); any {
		during = engine.Describe(h)
	}
	if f, is := d.relayFault(err, during); is {
		d.c.abort(f)
		return
	}
	d.broken(during, err)
}

// relayFault returns the fault that ended a link between devices which goes through
// hosts, false where err is none of that: the cause is another rank then, or the
// network, and not this rank's device.
func (d *devices) relayFault(err error, during string) (f transport.Fault, is bool) {
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
		return c.Engine.Mismatch(calls.Peer, calls.Theirs, calls.Mine), true
	case errors.As(err, &link) && errors.Is(err, transport.ErrPeerClosed):
		return transport.Fault{Rank: link.Peer, Text: fmt.Sprintf("%srank %d closed its communicator while rank %d called %s",
			engine.FaultClosed, link.Peer, c.Rank, during)}, true
	case errors.As(err, &link):
		return transport.Fault{Rank: c.Rank, Text: fmt.Sprintf("%srank %d in %s: %v", engine.FaultLink, c.Rank, during, err)},
			true
	}
	return f, false
}

// faultGrace is how long a rank that another one has stopped waits for that one's
// words.
const faultGrace = 500 * time.Millisecond

// awaitFault waits for the communicator's fault.
func (d *devices) awaitFault(within time.Duration) bool {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, failed := d.c.Endpoint.Aborted(); failed {
			return true
		}
		if time.Since(began) > within {
			return false
		}
	}
}

// lookEvery is how often a rank with calls under way looks whether all is well.
const lookEvery = 10 * time.Millisecond

// watch looks after the calls under way until the communicator has failed or is
// closed: a stream that waits for a rank which will never come is let go.
func (d *devices) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	wait := d.c.waiter.Watch.Another()
	defer wait.Close()
	for {
		select {
		case <-d.stop:
			return
		case <-d.kick:
		}
		for {
			if d.aborted() {
				return
			}
			left, err := d.retire()
			if err != nil {
				d.groupFailed(err)
				continue
			}
			if left == 0 {
				wait.Clear()
				break
			}
			d.compare()
			d.publish(wait)
			select {
			case <-d.stop:
				return
			case <-tick.C:
			}
		}
	}
}

// aborted passes a fault of the communicator on to the group.
func (d *devices) aborted() bool {
	fault, failed := d.c.Endpoint.Aborted()
	if failed {
		d.group.Abort(errorOf(fault))
	}
	return failed
}

// compare looks whether the other ranks have made the same calls, and have not left
// before one that is under way.
func (d *devices) compare() {
	h, _, any := d.oldest()
	if !d.compareHost() || !any {
		return
	}
	c := d.c
	for i, r := range d.local {
		if i != d.mine && d.block.Stage(i).Load() != device.StageOpen && c.Endpoint.Status(r).Call.Seq < h.Seq {
			c.abort(transport.Fault{Rank: r, Text: fmt.Sprintf("%srank %d closed its communicator while rank %d called %s",
				engine.FaultClosed, r, c.Rank, engine.Describe(h))})
			return
		}
	}
	c.Engine.CheckCall(h)
}

// compareHost compares all calls of this rank with those that the other ranks of its
// host have made, unless that was done. A difference is the communicator's fault.
func (d *devices) compareHost() (same bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.latest == 0 {
		return true
	}
	mine, upTo := d.block.Ring(d.mine), d.at(d.latest).header.Seq
	for i, r := range d.local {
		if i == d.mine {
			continue
		}
		latest := d.c.Endpoint.Status(r).Call.Seq
		own, other, differ, next := mine.Differs(d.block.Ring(i), d.compared[i], upTo, latest)
		if differ {
			d.c.abort(d.mismatch(r, other, own))
			return false
		}
		d.compared[i] = next
	}
	return true
}

// mismatch is the fault of rank r, whose call of the same number is theirs.
func (d *devices) mismatch(r int, theirs, mine transport.Header) transport.Fault {
	if theirs == mine {
		return transport.Fault{Rank: -1, Text: fmt.Sprintf(
			"%srank %d and rank %d gave registered memory in different places, or only one of them did, in %s",
			engine.FaultMismatch, r, d.c.Rank, engine.Describe(mine))}
	}
	return d.c.Engine.Mismatch(r, theirs, mine)
}

// publish says which ranks have not come to the oldest call, and ends the communicator
// when that lasts too long.
func (d *devices) publish(wait *waits.Wait) {
	h, since, any := d.oldest()
	var late []waits.Lack
	for r := range d.c.Size {
		if st := d.c.Endpoint.Status(r); any && r != d.c.Rank && !st.Unknown && st.Call.Seq < h.Seq {
			late = append(late, waits.Lack{Rank: r, What: "to call it"})
		}
	}
	if len(late) == 0 {
		wait.Clear()
		return
	}
	if stalled := wait.Publish(engine.Describe(h), since, late); stalled != nil {
		d.c.abort(transport.Fault{Rank: wait.InComm(stalled.Rank), Text: engine.FaultStalled + stalled.Error()})
	}
}
