package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/comm"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/topo"
)

// Comm is a communicator: the ranks of a World, the links between them and the plans of their collectives. Only one
// goroutine at a time may make a call on it; a second one gets ErrBusy.
//
// A rank that belongs to no group of a Split has a nil *Comm: its Rank is -1, its Size 0 and its Name empty, Close does
// nothing, and every call on it returns ErrArgument.
type Comm struct {
	handle
	in *comm.Comm
}

type handle = comm.Handle // for comm.Of

// New makes a communicator of all ranks of w. All ranks call it together, with the same options. It compares the ranks'
// settings, measures the links between them (or takes the measurement of an earlier job on this host), and lets rank 0
// decide on the plans. A difference between ranks is reported as ErrDisagree on all of them, with the ranks and the
// values. A link within a host is opened when a plan first needs it.
//
// The caller closes the communicator, before the World. Several communicators of one World may exist at once.
func New(ctx context.Context, w World, opts ...Option) (*Comm, error) {
	return outside(comm.New(ctx, w, opts...))
}

func outside(in *comm.Comm, err error) (*Comm, error) {
	if in == nil {
		return nil, err
	}
	return &Comm{comm.NewHandle(in), in}, err
}

// inner returns the internal communicator of c, even if c is nil.
func (c *Comm) inner() *comm.Comm {
	if c == nil {
		return comm.None()
	}
	return c.in
}

// Rank returns this rank, counted from 0, or -1 for a nil Comm.
func (c *Comm) Rank() int {
	if c == nil {
		return -1
	}
	return c.in.Rank
}

// Size returns the number of ranks, 0 for a nil Comm.
func (c *Comm) Size() int {
	if c == nil {
		return 0
	}
	return c.in.Size
}

// Name returns the name of the communicator in reports and errors.
func (c *Comm) Name() string { return c.inner().Name }

// Graph returns the graph of the links between the ranks, as measured last. The caller must not change it.
func (c *Comm) Graph() *topo.Graph {
	g, _ := c.inner().Setup.Latest()
	return g
}

// Between returns the origin of the graph of ranks on several hosts. It is nil for one host and for a graph that was
// passed to New. The caller must not change it.
func (c *Comm) Between() *Between {
	_, b := c.inner().Setup.Latest()
	return b
}

// Explain returns a description, for people, of the plans of the communicator and the message sizes that each is used
// for. Several goroutines may call it, also during a call and after Close.
func (c *Comm) Explain() string { return c.inner().Plans.Explain() }

// Close leaves the communicator and frees its memory. Ranks that wait for this one get ErrPeerClosed. If another
// goroutine of this rank is in a call, Close waits for the end of that call.
//
// Before it leaves, Close waits up to a second for the other ranks to enter the latest call of this rank: a rank can
// return from a Broadcast or Reduce before any other rank has called it, and only then is it known whether all ranks
// made the same call. Close returns the failure of the communicator, as a *RankError, unless a call has returned it
// already. Close also reports this error to treerun, which then fails the job, even if the program drops the error and
// all ranks exit with 0. So check it: see "Shutting down" in docs/guide.md. World.Close closes communicators that are
// still open.
//
// If a message for this rank has arrived and was not received, only the Close of this rank returns ErrMismatch, and the
// error names the sender, the length and the tag. Close does not wait for messages: it does not report one that arrives
// later. Other ranks do not notice, and the communicator is closed as usual.
//
// Any goroutine may call Close; the second and later calls return nil once the first has returned. As that of a World,
// a Close that a panic runs, by defer, closes nothing and panics again.
func (c *Comm) Close() error {
	if p := recover(); p != nil {
		panic(p)
	}
	return c.inner().Close()
}

// Split makes one new communicator for each color. Each has the ranks that passed this color, ordered by key and then
// by their rank in c. All ranks of c call Split together, with the same options. A rank with a negative color gets nil.
//
// The links are not measured again. c stays usable, and may be closed before or after the new communicator; a failure
// of either does not end the other, unless a rank is lost. Calls and messages may be in flight on c: Split takes its
// place in the order of the calls, so earlier ones are done when it returns, while messages stay in flight.
//
// Thousands of communicators may exist at once. On one host each one needs, in every rank, the addresses of all its
// links (34 MiB with 8 ranks), and memory for the links that carry messages. Those of one New share a memory file,
// which ends with the last of them. It has room for 256 at a time that have the same rank as their rank 0; each further
// one needs a file of its own, and so one descriptor more.
func (c *Comm) Split(ctx context.Context, color, key int, opts ...Option) (*Comm, error) {
	return outside(c.inner().Split(ctx, calls.Split, color, key, opts...))
}

// SplitByHost is a Split by the hosts of ranks: each rank gets a communicator of the ranks of c on its own host, in
// their order.
func (c *Comm) SplitByHost(ctx context.Context, opts ...Option) (*Comm, error) {
	in := c.inner()
	return outside(in.Split(ctx, calls.SplitByHost, in.Setup.World.HostOf(in.Rank), in.Rank, opts...))
}

// Dup makes a communicator with the ranks of c, for a library that gets c as an argument: calls and messages on the two
// communicators do not match each other. All ranks call Dup together; see Split.
func (c *Comm) Dup(ctx context.Context, opts ...Option) (*Comm, error) {
	return outside(c.inner().Split(ctx, calls.Dup, 0, c.Rank(), opts...))
}

// StartDup begins a Dup, and does not wait for the other ranks. All ranks of c call it; those that call it several
// times do so in the same order.
//
// Until Wait returns, all calls and messages on c are allowed, also another StartDup, Split or Sub, and those under way
// continue. Their order with respect to StartDup is free: one rank may call AllReduce before StartDup, and another rank
// after it. Only Close of c comes after Wait.
//
// A goroutine makes the new communicator. Its messages move during every call on c that waits, Wait among them, and
// otherwise some milliseconds later.
func (c *Comm) StartDup(opts ...Option) (*StartedDup, error) {
	in, err := c.inner().StartDup(opts)
	if err != nil {
		return nil, err
	}
	return &StartedDup{in}, nil
}

// StartedDup is a Dup in flight. Only one goroutine at a time may use it. Every StartedDup needs a Wait, or calls of
// Test until one reports the end.
type StartedDup struct{ dup *comm.StartedDup }

// Wait returns the new communicator once it is made on this rank, also if ctx has ended by then. Later calls return the
// same communicator. If ctx ends before, the communicator that is duplicated fails on all ranks. If that one fails or
// is closed before Wait returns, there is no new communicator, and Wait returns the failure. While another goroutine
// makes a call on it, Wait returns ErrBusy, and may be called again.
func (d *StartedDup) Wait(ctx context.Context) (*Comm, error) { return outside(d.dup.Wait(ctx)) }

// Test makes progress on the communicator that is duplicated, and reports whether Wait would return at once, with the
// values that Wait would return. It does not wait.
func (d *StartedDup) Test() (*Comm, bool, error) {
	in, done, err := d.dup.Test()
	c, err := outside(in, err)
	return c, done, err
}

// Sub makes a communicator of the given ranks of c, in that order. These ranks call it together, with the same list and
// options; the other ranks take no part. A rank that is in several calls of Sub or Split makes them in the same order
// as the other ranks of these calls. Calls in flight on c stay so, and need not end first. In all other respects Sub is
// like Split.
func (c *Comm) Sub(ctx context.Context, ranks []int, opts ...Option) (*Comm, error) {
	return outside(c.inner().Sub(ctx, ranks, opts...))
}

// Abort ends the communicator on all ranks: calls in flight, and every later call, fail with ErrAborted, this rank and
// cause, which may be nil. Any goroutine may call it. Close does not return this error on this rank; on other ranks it
// does, unless a call has returned it already.
func (c *Comm) Abort(cause error) { c.inner().Abort(cause) }

// UnusedPlan returns the name of a plan of WithPlan that no call has run yet, or "" if there is none.
func (c *Comm) UnusedPlan() string { return c.inner().UnusedPlan() }
