package comm

import (
	"context"
	"slices"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Inside is a communicator for packages of treerun that run exchanges of their own between its ranks: package sparse.
// Such an exchange is a call of the communicator like any other: it claims it, begins with a Gather, in which the ranks
// detect different calls, and fails as calls do. One goroutine at a time may use it, from Claim to End.
type Inside struct {
	Comm    *Comm
	Hosts   []int         // the host of each rank
	Share   float64       // the number of ranks per core, 1 where each has a core
	Waiter  engine.Waiter // how this rank waits
	Verbose bool          // whether --verbose was given

	// Trees carry large messages between these ranks, up to the root and down again, with their shares, which add up to 1.
	// They are the same on all ranks.
	Trees  []topo.Tree
	Shares []float64

	// HeapBytes is the most that the Layouts of links may have for Alloc, where all ranks
	// are on one host; 0: nothing. It is the same on all ranks.
	HeapBytes int

	State any // what the package that uses Inside keeps here
}

// Handle is embedded by a type of another package that becomes a communicator for Of.
type Handle struct{ c *Comm }

// NewHandle returns a handle of c.
func NewHandle(c *Comm) Handle { return Handle{c} }

func (h Handle) comm() *Comm { return h.c }

// Of returns the inside of a *collective.Comm.
func Of(h interface{ comm() *Comm }) *Inside {
	c := h.comm()
	c.insideOnce.Do(func() {
		trees, shares, err := c.Plans.LargeTrees()
		if err != nil {
			panic("collective: trees of a graph that has been planned for: " + err.Error())
		}
		hosts, cores := setup.HostsOf(c.Setup.World), c.Plans.Planner.Site.Costs().Cores
		ranks := setup.RanksOnCores(c.Plans.Planner.Site.Costs().CoreHosts, hosts)
		c.inside = &Inside{
			Comm: c, Hosts: hosts,
			Share:  max(1, float64(slices.Max(ranks))/float64(max(cores, 1))),
			Waiter: exchangeWaiter(c, ranks[c.Rank]), Verbose: c.Setup.World.Setting("verbose") != "",
			Trees: trees, Shares: shares, HeapBytes: c.Setup.HeapBytes,
		}
	})
	return c.inside
}

// exchangeWaiter returns how a rank waits in exchanges, where its cores are shared by the given number of ranks. A poll
// of them is many system calls where ranks are on several hosts; where these are namespaces of one machine, which share
// its cores, ranks sleep soon.
func exchangeWaiter(c *Comm, ranks int) engine.Waiter {
	w := c.Waiter
	if !setup.OneHost(setup.HostsOf(c.Setup.World)) && ranks > c.Plans.Planner.Site.Costs().Cores {
		w.Spins, w.Yields, w.Backoff = 1, exchangeYields, exchangeBackoff
	}
	return w
}

const (
	exchangeYields  = 4
	exchangeBackoff = 300 * time.Microsecond // a millisecond where the runtime has no finer timer
)

// Gather is an AllGather of bytes. Its header contains its purpose, so that a rank that makes another call is detected.
func (i *Inside) Gather(ctx context.Context, during string, mine, all []byte) error {
	// Other ranks may still be busy preparing their bytes.
	a := NewArgs(call.ID{Kind: call.Exchange}).SetGather(i.Comm, kernel.Uint8, mine, all)
	err := heldGather(ctx, i.Comm, a, &i.Waiter)
	if err == nil || i.Comm.failure.err == nil {
		return err
	}
	return i.Comm.failure.again(during)
}

// heldGather makes the AllGather a, and waits with w. The communicator is claimed, and has not failed: one of several
// AllGathers may fail, and the next would report to ranks that do not know the cause yet that this one makes another
// call.
func heldGather(ctx context.Context, c *Comm, a *Args, w *engine.Waiter) error {
	if c.failure.err != nil {
		return c.failure.err
	}
	if a.Err != nil {
		return a.Err
	}
	return c.Go(ctx, a, w)
}

// FaultDevice makes an error of this rank's device, if there is one, the fault of all links of c,
// and returns the first fault.
func (i *Inside) FaultDevice(during string, cause error) error {
	if cause == nil {
		return nil
	}
	f := transport.Faultf(transport.FaultDevice, i.Comm.Rank, "rank %d in %s: %v", i.Comm.Rank, during, cause)
	_ = i.Comm.Fault(f, during)
	return i.Comm.failure.causedBy(cause)
}
