package comm

import (
	"context"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Side is a communicator as its own packages see it. One goroutine at a time may
// use it, from Claim to Release.
type Side struct {
	Rank, Size int
	Hosts      []int         // by rank
	Graph      *topo.Graph   // as measured, the same on all ranks
	Cores      int           // usable cores of a host
	Share      float64       // ranks that a core has, 1 where they have one each
	Waiter     engine.Waiter // how this rank waits
	Verbose    bool          // people want to know more

	// Trees are what large messages between these ranks travel on, up to the root
	// and down again, with their shares, which add up to 1. They are the same on
	// all ranks.
	Trees  []topo.Tree
	Shares []float64

	// Claim claims the communicator for a call with a name, and Release ends that.
	// An error of Claim is the caller's to return as it is.
	Claim   func(call string) error
	Release func()

	// Gather gives all ranks, in all, the bytes of all ranks, by rank. Every rank
	// gives as many. during names the call that it is a part of.
	Gather func(ctx context.Context, during string, mine, all []byte) error

	// Dense is an AllReduce. in and out are the same memory or do not overlap.
	Dense func(ctx context.Context, t kernel.DType, op kernel.Op, in, out []byte) error

	// DenseUs predicts what Dense takes for so many bytes, in microseconds, and
	// names the plan. It is the same on all ranks; NaN: nobody knows.
	DenseUs func(bytes int) (name string, us float64)

	// Open opens links between all ranks, which call it together. purpose names
	// them among all that were opened. They close with the communicator, and
	// whatever is the fault of one endpoint is made that of all. An error is one of
	// Fail, whose during it takes.
	Open func(ctx context.Context, during, purpose string, layout transport.Layout) (transport.Endpoint, error)

	// Try is Open for links that the ranks can do without: where any of them cannot open
	// them, why says so on all ranks, which have no links then, and goes on. An error is
	// one of Fail.
	Try func(ctx context.Context, during, purpose string, layout transport.Layout) (ep transport.Endpoint, why, err error)

	// HeapBytes is the most that the Layouts of links may have for Alloc, where all ranks
	// are on one host; 0: nothing. It is the same on all ranks.
	HeapBytes int

	// Shut closes links that Open has opened, before the communicator is
	// closed: when no rank uses them any more.
	Shut func(ep transport.Endpoint) error

	// Fail ends the communicator on all ranks with a fault, unless it has one, and
	// returns the error for the caller, who was in this call.
	Fail func(ctx context.Context, f transport.Fault, during string) error

	// DenseDevice is AllReduceDevice, put into stream s. in and out are the same
	// memory of the stream's device or do not overlap.
	DenseDevice func(ctx context.Context, s *cuda.Stream, t kernel.DType, op kernel.Op, in, out cuda.Addr, count int) error

	// DenseDeviceUs is DenseUs for DenseDevice. The first of the two opens the ranks'
	// devices, of which dev is this one's: all ranks call it together. An error is the
	// caller's to return as it is.
	DenseDeviceUs func(ctx context.Context, dev *cuda.Device, bytes int) (us float64, err error)

	// FailDevice is Fail for what this rank's device, or its driver, did not do.
	FailDevice func(ctx context.Context, during string, cause error) error

	// OnClose has f called when the communicator is closed, after all calls.
	OnClose func(f func() error)

	// State is the package's own.
	State any
}
