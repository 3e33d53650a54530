package collective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/collective/internal/side"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// inside is a communicator: the ranks of a World, their links, and the plans for
// them. One goroutine at a time may make a call on it; a second one gets
// ErrBusy.
type inside struct {
	rank, size int
	name       string
	world      World
	graph      *topo.Graph
	between    *Between // nil on one host
	ep         transport.Endpoint
	engine     *engine.Engine
	plans      *plans
	planning   planner.Options
	waiter     engine.Waiter

	busy     atomic.Bool
	seq      uint64                // of the latest call
	calls    [inFlight]engine.Call // the latest, by number
	messages engine.Pool
	err      *RankError
	splits   int // so far
	connect  connector

	aside     *side.Comm // of Aside
	asideOnce sync.Once
	sidesMu   sync.Mutex
	sides     []*sideLinks   // of asideOpen
	leaving   []func() error // of side.Comm.OnClose

	devices     *devices       // nil until the first device call
	deviceGraph *topo.Graph    // of WithDeviceGraph
	devicePeers *peers.Options // how devices are measured; nil: not at all

	stall, stallTimeout time.Duration // of the options, for Split

	settle  time.Duration // how long Close waits for ranks that have not entered this one's last call
	once    sync.Once     // Close
	closing atomic.Bool   // Close has begun: no call begins any more
	watch   sync.WaitGroup
	closed  chan struct{}
}

// Close leaves the communicator and gives its memory back. The second and later calls return
// when the first has ended, with nil.
func (c *inside) Close() error {
	var err error
	c.once.Do(func() { err = c.close() })
	return err
}

func (c *inside) close() error {
	c.closing.Store(true)
	if text := c.UnusedPlan(); text != "" && c.rank == 0 && c.err == nil {
		fmt.Fprintf(os.Stderr, "treerun: communicator %s: %s\n", c.name, text)
	}
	for !c.busy.CompareAndSwap(false, true) {
		c.abort(transport.Fault{Rank: c.rank, Text: engine.FaultClosed +
			fmt.Sprintf("rank %d closed its communicator during its own call", c.rank)})
		time.Sleep(time.Millisecond)
	}
	// busy stays set: no call begins any more.
	select {
	case <-c.world.Failed(): // the World knows the cause best
		abortOnFailure(c.world, c.ep, nil)
	default:
	}
	if !c.engine.Idle() {
		c.ep.Abort(transport.Fault{Rank: c.rank,
			Text: engine.FaultClosed + fmt.Sprintf(
				"rank %d closed its communicator with calls under way; Wait for every Request before Close", c.rank)})
	}
	c.devices.finish()
	fault, failed := c.engine.Settle(c.settle)
	gone := c.devices.close()
	for _, f := range c.leaving {
		gone = errors.Join(gone, f())
	}
	close(c.closed)
	gone = errors.Join(gone, c.closeSides())
	c.watch.Wait()
	c.waiter.Watch.Close()
	if err := errors.Join(gone, c.ep.Close()); err != nil && !failed {
		return fmt.Errorf("collective: rank %d: close: %w", c.rank, err)
	}
	if failed && c.err == nil {
		c.err = &RankError{Rank: fault.Rank, Op: "Close", Err: errorOf(fault)}
		return c.err
	}
	return nil
}

const checkEvery = 200 * time.Millisecond

// checkCalls compares the ranks' calls now and then while the communicator is
// open, for ranks that are in no call themselves.
func (c *inside) checkCalls() {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-tick.C:
			c.engine.Check()
		}
	}
}

// begin claims the communicator for one call.
func (c *inside) begin(kind plan.Kind) error { return c.claim(engine.CallName(kind)) }

// claim claims the communicator for a call with a name.
func (c *inside) claim(call string) error {
	if !c.busy.CompareAndSwap(false, true) {
		return c.busyError(call)
	}
	if c.err != nil {
		c.end()
		return &RankError{Rank: c.err.Rank, Op: call, Err: c.err.Err}
	}
	return nil
}

func (c *inside) end() { c.busy.Store(false) }

// busyError says why the communicator cannot be claimed.
func (c *inside) busyError(call string) error {
	err := ErrBusy
	if c.closing.Load() {
		err = ErrClosed
	}
	return fmt.Errorf("collective: %s on rank %d: %w", call, c.rank, err)
}

// failMessage is fail for a message.
func (c *inside) failMessage(ctx context.Context, f transport.Fault, during *engine.Message) error {
	hint := ""
	if during.Receives() {
		hint = "contents of buf are undefined"
	}
	return c.failDuring(ctx, f, during.String(), hint)
}

// undefinedAnyhow is undefined for calls of which nobody keeps whether they were in place.
const undefinedAnyhow = "contents of recv, and of send in place, are undefined"

// undefined says which slices of a call under way hold nothing of use once it has failed.
func (c *inside) undefined(seq uint64) string {
	call := c.callOf(seq)
	if call == nil || call.Done() {
		return ""
	}
	in, out := call.In, call.Out
	if len(call.Pieces) > 0 {
		in, out = call.Pieces[0].In, call.Pieces[0].Out
	}
	switch {
	case len(out) == 0, call.Header.Op == engine.Splits: // no slices of the caller's
		return ""
	case overlapOf(in, out) != apart:
		return "contents of send and recv are undefined"
	}
	return "contents of recv are undefined"
}

// fail records the first failure and returns it as the error of the call.
func (c *inside) fail(ctx context.Context, f transport.Fault, during transport.Header) error {
	return c.failDuring(ctx, f, engine.Describe(during), c.undefined(during.Seq))
}

func (c *inside) failDuring(ctx context.Context, f transport.Fault, during, hint string) error {
	c.engine.CancelReceives()
	err := errorOf(f)
	if errors.Is(err, ErrCanceled) && ctx.Err() != nil {
		err = &givenUp{err, ctx.Err()}
	}
	c.err = &RankError{Rank: f.Rank, Op: during, Err: err, Hint: hint}
	c.abort(f)
	return c.err
}
