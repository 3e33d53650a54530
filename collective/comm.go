package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/topo"
)

// Comm is a communicator: the ranks of a World, their links, and the plans for
// them. One goroutine at a time may make a call on it; a second one gets
// ErrBusy.
//
// A rank to which Split gives none has a nil *Comm: its Rank is -1, its Size 0 and its Name empty, Close does nothing,
// and every call on it is an ErrArgument.
type Comm struct {
	handle
	in *comm.Comm
}

type handle = comm.Handle // for comm.Of

// New makes a communicator of all ranks of w. All ranks call it together, with
// the same options. It compares the ranks' settings, measures the links
// between them (or takes the measurement of an earlier job on this host), and
// has rank 0 decide on the plans. A difference between ranks is an ErrDisagree on
// all of them, with the ranks and the values. Links within a host are opened when
// a plan first needs them.
//
// The caller closes the communicator, before the World. Several communicators
// of one World may exist at once.
func New(ctx context.Context, w World, opts ...Option) (*Comm, error) {
	return outside(comm.New(ctx, w, opts...))
}

func outside(in *comm.Comm, err error) (*Comm, error) {
	if in == nil {
		return nil, err
	}
	return &Comm{comm.NewHandle(in), in}, err
}

// inner returns the inside of c, also where c is nil.
func (c *Comm) inner() *comm.Comm {
	if c == nil {
		return comm.None()
	}
	return c.in
}

// Rank returns this rank, from 0, of a nil Comm -1.
func (c *Comm) Rank() int {
	if c == nil {
		return -1
	}
	return c.in.Rank
}

// Size returns the number of ranks.
func (c *Comm) Size() int {
	if c == nil {
		return 0
	}
	return c.in.Size
}

// Name returns the name of the communicator, which reports and errors call it by.
func (c *Comm) Name() string { return c.inner().Name }

// Graph returns what was measured of the links between the ranks. It must not
// be changed.
func (c *Comm) Graph() *topo.Graph { return c.inner().Graph }

// Between returns how the graph of ranks on several hosts is known, nil for one
// host and for a graph that New was given. It must not be changed.
func (c *Comm) Between() *Between { return c.inner().Between }

// Explain returns, for people, the plans of the communicator and the sizes for
// which each is used.
func (c *Comm) Explain() string { return c.inner().Plans.Explain() }

// Close leaves the communicator and gives its memory back. Ranks that wait for
// this one get ErrPeerClosed. A call under way on this rank ends first.
//
// Before it leaves, Close waits up to a second for the others to enter the
// latest call of this rank: a rank can return from a Broadcast or Reduce before
// anybody else has called it, and only then is it known whether all ranks made
// the same call. Close returns the failure of the communicator, as a
// *RankError, unless a call has returned it already. What it returns it also reports to treerun, which then fails the
// job, also where the program drops the error and all ranks exit with 0. So check it: see "Shutting down" in
// docs/guide.md. World.Close closes communicators that are still open.
//
// A message that has come for this rank and that it has not received is an ErrMismatch of its Close alone, which names
// its sender, length and tag. Close does not wait for messages: one that comes later is not named. The others notice
// nothing, and all is closed as usual.
//
// Any goroutine may call Close; the second and later calls return when the
// first has ended, with nil.
func (c *Comm) Close() error { return c.inner().Close() }

// Split makes new communicators, one for each colour, of the ranks that gave
// it, ordered by key and then by their rank in c. All ranks of c call it
// together, with the same options. A rank with a negative colour gets nil.
//
// The links are not measured again. c stays usable, and may be closed before or after
// the new communicator, which holds nothing of it; a failure of either does not end the
// other, unless it is a rank's. Calls and messages may be under way on c: Split comes after the calls
// in their order, so that these are done when it returns, and messages stay under way.
//
// Thousands of communicators may exist at once. On one host each takes, in every rank,
// the addresses of all its links (34 MiB with 8 ranks), memory for those that carry
// messages, and two descriptors; its rank 0 has one for the memory and one for each
// other rank.
func (c *Comm) Split(ctx context.Context, color, key int, opts ...Option) (*Comm, error) {
	return outside(c.inner().Split(ctx, color, key, opts...))
}

// Dup makes another communicator of the same ranks: one whose calls and messages do not meet those of c, for a
// library that is handed c. All ranks call it together; see Split.
func (c *Comm) Dup(ctx context.Context, opts ...Option) (*Comm, error) {
	return c.Split(ctx, 0, c.Rank(), opts...)
}

// StartDup begins a Dup, and does not wait for the other ranks. All ranks of c call it; those that call it several
// times do so in one order. Until Wait returns, every call and message may be made on c, also a further StartDup, Split
// or Sub, before the StartDup on one rank and after it on another. Calls that are under way move on. Close of c comes
// after Wait.
//
// A goroutine makes the new communicator. Its messages move in every call on c that waits, Wait among them, and without
// such a call some milliseconds later.
func (c *Comm) StartDup(opts ...Option) (*StartedDup, error) {
	in, err := c.inner().StartDup(opts)
	if err != nil {
		return nil, err
	}
	return &StartedDup{in}, nil
}

// StartedDup is a Dup under way. One goroutine at a time may use it. Wait, or Test until it reports the end, is called
// for every one.
type StartedDup struct{ dup *comm.StartedDup }

// Wait returns the new communicator once it is made on this rank. A second Wait returns the same. A ctx that ends is a
// failure of the communicator that is duplicated, on all ranks. When that one fails meanwhile there is no new one.
func (d *StartedDup) Wait(ctx context.Context) (*Comm, error) { return outside(d.dup.Wait(ctx)) }

// Test moves what is under way on the communicator that is duplicated, and reports whether Wait would return at once,
// with what it returns then. It does not wait.
func (d *StartedDup) Test() (*Comm, bool, error) {
	in, done, err := d.dup.Test()
	c, err := outside(in, err)
	return c, done, err
}

// Sub makes a communicator of some ranks of c, in the order of ranks. These call it together, with the same ranks and
// options; the others need not know of it. A rank that is in several calls of Sub or Split makes them in the order of
// the others that are in them. Calls of c that are under way stay so, and need not end first. Otherwise it is as Split.
func (c *Comm) Sub(ctx context.Context, ranks []int, opts ...Option) (*Comm, error) {
	return outside(c.inner().Sub(ctx, ranks, opts...))
}

// Abort ends the communicator on all ranks: what is under way, and every later
// call, fails with ErrAborted, this rank and cause, which may be nil. Any
// goroutine may call it. Close of this rank does not return that error, Close of the others does where no call has.
func (c *Comm) Abort(cause error) { c.inner().Abort(cause) }

// UnusedPlan names a plan of WithPlan that no call has run yet; "" is none.
func (c *Comm) UnusedPlan() string { return c.inner().UnusedPlan() }
