package comm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// Aside is for the packages of treerun below this one, which run exchanges of
// their own between the ranks of c; see package side.
func (c *Comm) Aside() *Side {
	c.asideOnce.Do(func() {
		trees, shares, err := c.Plans.LargeTrees()
		if err != nil {
			panic("collective: trees of a graph that has been planned for: " + err.Error())
		}
		ranks := c.boxRanks()
		c.aside = &Side{
			Rank: c.Rank, Size: c.Size, Hosts: hostsOf(c.World), Graph: c.Graph, Cores: c.Plans.Machine().Cores,
			Share:  max(1, float64(slices.Max(ranks))/float64(max(c.Plans.Machine().Cores, 1))),
			Waiter: c.asideWaiter(ranks[c.Rank]), Verbose: c.World.Setting("verbose") != "",
			Trees: trees, Shares: shares,
			Claim: c.Claim, Release: c.End,
			Gather: c.asideGather, Dense: c.asideDense,
			DenseUs: c.denseUs,
			Open:    c.asideOpen, Try: c.asideTry,
			Shut:        c.asideShut,
			HeapBytes:   c.Plans.HeapBytes,
			Fail:        c.asideFail,
			DenseDevice: c.asideDenseDevice, DenseDeviceUs: c.asideDenseDeviceUs, FailDevice: c.asideFailDevice,
			OnClose: func(f func() error) { c.leaving = append(c.leaving, f) },
		}
	})
	return c.aside
}

// boxRanks returns, for every rank, how many share its cores, it among them.
func (c *Comm) boxRanks() []int {
	boxes := c.Plans.Machine().Boxes
	if len(boxes) != c.Size {
		boxes = hostsOf(c.World)
	}
	count := make(map[int]int)
	for _, b := range boxes {
		count[b]++
	}
	ranks := make([]int, c.Size)
	for r, b := range boxes {
		ranks[r] = count[b]
	}
	return ranks
}

// asideWaiter is how a rank waits for links aside, whose cores so many ranks share. A
// poll of them is many system calls where ranks are on several hosts; where these are
// namespaces of one machine, which share its cores, ranks sleep soon.
func (c *Comm) asideWaiter(ranks int) engine.Waiter {
	w := c.waiter
	if !OneHost(hostsOf(c.World)) && ranks > c.Plans.Machine().Cores {
		w.Spins, w.Yields, w.Backoff = 1, asideYields, asideBackoff
	}
	return w
}

const (
	asideYields  = 4
	asideBackoff = 300 * time.Microsecond // a millisecond where the runtime has no finer timer
)

// asideGather is an AllGather of bytes. Its header says what it is for, so that a
// rank that makes another call is found out by it.
func (c *Comm) asideGather(ctx context.Context, during string, mine, all []byte) error {
	// Others may be busy, with what they have to tell.
	err := c.heldGather(ctx, (&Args{aside: true}).gathers(c, kernel.Uint8, mine, all), &c.aside.Waiter)
	if err == nil || c.err == nil {
		return err
	}
	return c.failedDuring(during)
}

// failedDuring returns the failure of c, which this rank met in a call: it is that call's
// whichever part of it met it.
func (c *Comm) failedDuring(during string) error {
	c.err = &RankError{Rank: c.err.Rank, Op: during, Err: c.err.Err, Hint: c.err.Hint}
	return c.err
}

// heldGather makes the AllGather a, and waits as w says. The communicator is claimed.
func (c *Comm) heldGather(ctx context.Context, a *Args, w *engine.Waiter) error {
	if err := ctx.Err(); err != nil {
		return c.Cancel(ctx, a)
	}
	if a.Err != nil {
		return a.Err
	}
	if err := c.Enter(ctx, a); err != nil {
		return err
	}
	return c.waitAs(ctx, c.Seq, w)
}

func (c *Comm) asideDense(ctx context.Context, t kernel.DType, op kernel.Op, in, out []byte) error {
	a := Args{Kind: plan.AllReduce, Root: -1, Count: len(out) / t.Size(), Work: kernel.Work{DType: t, Op: op}, In: in,
		Out: out}
	if err := c.Enter(ctx, &a); err != nil {
		return err
	}
	return c.Wait(ctx, c.Seq)
}

// asideOpen opens links that live as long as c, which has failed if it cannot.
func (c *Comm) asideOpen(ctx context.Context, during, purpose string, layout transport.Layout) (transport.Endpoint,
	error) {
	return c.asideConnect(ctx, during, func(within context.Context) (transport.Endpoint, error) {
		return c.connect(within, newInner(c, openAside), purpose, layout)
	})
}

// asideConnect is asideOpen with its own way to make an endpoint.
func (c *Comm) asideConnect(ctx context.Context, during string,
	connect func(context.Context) (transport.Endpoint, error)) (transport.Endpoint, error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.cancelOnFault(within, cancel)
	ep, err := connect(within)
	if err != nil {
		return nil, c.asideUnopened(ctx, during, "opening links", err)
	}
	c.besides(ep)
	return ep, nil
}

// besides makes ep links of c, which end and fail with it.
func (c *Comm) besides(ep transport.Endpoint) {
	s := &sideLinks{Endpoint: ep, over: make(chan struct{})}
	c.sidesMu.Lock()
	c.Sides = append(c.Sides, s)
	c.sidesMu.Unlock()
	if fault, failed := c.Endpoint.Aborted(); failed {
		ep.Abort(fault)
	}
	s.watch.Go(func() { abortOnFailure(c.World, ep, s.over) })
}

// sideLinks are links that asideConnect has opened.
type sideLinks struct {
	Endpoint transport.Endpoint
	over     chan struct{} // closed when ep is about to be
	watch    sync.WaitGroup
}

func (s *sideLinks) close() error {
	close(s.over)
	s.watch.Wait()
	return s.Endpoint.Close()
}

// asideShut closes links that asideOpen has opened.
func (c *Comm) asideShut(ep transport.Endpoint) error {
	c.sidesMu.Lock()
	defer c.sidesMu.Unlock()
	i := slices.IndexFunc(c.Sides, func(s *sideLinks) bool { return s.Endpoint == ep })
	if i < 0 {
		return nil
	}
	s := c.Sides[i]
	c.Sides = slices.Delete(c.Sides, i, i+1)
	return s.close()
}

// asideUnopened is what becomes of c when links could not be opened because of err.
func (c *Comm) asideUnopened(ctx context.Context, during, doing string, err error) error {
	f := transport.Fault{Rank: -1, Text: fmt.Sprintf("%srank %d in %s: %s: %v", engine.FaultLink, c.Rank, during, doing,
		err)}
	r, lost := c.World.Failure()
	switch fault, failed := c.Endpoint.Aborted(); {
	case failed:
		f = fault
	case lost != nil:
		f = transport.Fault{Rank: r, Text: engine.FaultLost + lost.Error()}
	case ctx.Err() != nil:
		f = transport.Fault{Rank: c.Rank, Text: fmt.Sprintf("%srank %d gave up in %s: %v", engine.FaultCanceled, c.Rank,
			during, err)}
	}
	return c.asideFail(ctx, f, during)
}

// cancelOnFault cancels a context when c fails before it ends: a rank that has
// learnt of a fault does not come to open links.
func (c *Comm) cancelOnFault(ctx context.Context, cancel func()) {
	tick := time.NewTicker(faultEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.World.Failed():
			abortOnFailure(c.World, c.Endpoint, nil) // the cause, before a part of the opening says that it was cancelled
			cancel()
		case <-tick.C:
			if _, failed := c.Endpoint.Aborted(); failed {
				cancel()
			}
		}
	}
}

const faultEvery = 5 * time.Millisecond

// asideFail makes a fault that of all links of c, and returns the first: when a rank has
// aborted c while others opened links, they see those links end.
func (c *Comm) asideFail(ctx context.Context, f transport.Fault, during string) error {
	c.abort(f)
	if first, failed := c.Endpoint.Aborted(); failed {
		f = first
	}
	if c.err != nil {
		return c.failedDuring(during)
	}
	hint := undefinedAnyhow
	if strings.HasPrefix(f.Text, engine.FaultMismatch) {
		hint = "" // found out before anything moved
	}
	return c.failDuring(ctx, f, during, hint)
}

// abort makes f the fault of all links of c, unless they have one.
func (c *Comm) abort(f transport.Fault) {
	c.Endpoint.Abort(f)
	c.sidesMu.Lock()
	defer c.sidesMu.Unlock() // none of them is closed meanwhile
	for _, s := range c.Sides {
		s.Endpoint.Abort(f)
	}
}

// closeSides closes the links that asideOpen has opened and nobody has shut.
func (c *Comm) closeSides() (err error) {
	c.sidesMu.Lock()
	sides := c.Sides
	c.Sides = nil
	c.sidesMu.Unlock()
	for _, s := range sides {
		err = errors.Join(err, s.close())
	}
	return err
}

// denseUs says which plan the AllReduce of a dense message takes, and its predicted time.
func (c *Comm) denseUs(bytes int) (string, float64) {
	choice, _, err := c.Choose(plan.AllReduce, -1, bytes)
	if err != nil {
		return "", math.NaN()
	}
	return choice.Plan.Name, choice.PredictedUs
}
