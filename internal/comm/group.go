package comm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Split is Comm.Split of package collective.
func (c *Comm) Split(ctx context.Context, color, key int, opts ...setup.Option) (*Comm, error) {
	mine, gathered := make([]byte, 16), make([]byte, 16*c.Size)
	binary.LittleEndian.PutUint64(mine, uint64(color))
	binary.LittleEndian.PutUint64(mine[8:], uint64(key))
	a := (&Args{as: engine.Splits}).gathers(c, kernel.Int64, mine, gathered)
	if err := c.Begin(a); err != nil {
		return nil, err
	}
	err := c.Go(ctx, a, &c.Waiter)
	c.splits++
	what := fmt.Sprintf("split#%d", c.splits)
	c.End()
	if err != nil {
		return nil, err
	}
	all := make([]int64, 2*c.Size)
	for i := range all {
		all[i] = int64(binary.LittleEndian.Uint64(gathered[8*i:]))
	}
	if color < 0 {
		return nil, nil
	}
	if c.Plans.Messages < 0 {
		return nil, c.ArgumentError("Split", "it is for %s", c.Plans.NoMessages())
	}
	var members []int
	for r := range c.Size {
		if all[2*r] == int64(color) {
			members = append(members, r)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	return c.among(ctx, "Split", what, members, opts)
}

// Sub is Comm.Sub of package collective.
func (c *Comm) Sub(ctx context.Context, ranks []int, opts ...setup.Option) (*Comm, error) {
	const call = "Sub"
	seen := make(map[int]bool)
	for _, r := range ranks {
		switch {
		case r < 0 || r >= c.Size:
			return nil, c.ArgumentError(call, "there is no rank %d: the highest is %d", r, c.Size-1)
		case seen[r]:
			return nil, c.ArgumentError(call, "rank %d is given twice", r)
		}
		seen[r] = true
	}
	switch {
	case len(ranks) == 0:
		return nil, c.ArgumentError(call, "no ranks are given")
	case !seen[c.Rank]:
		return nil, c.ArgumentError(call, "this rank is not among %s", topo.RankList(slices.Sorted(slices.Values(ranks))))
	case c.Plans.Messages < 0:
		return nil, c.ArgumentError(call, "it is for %s", c.Plans.NoMessages())
	}
	if err := c.Claim(call); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // an exchange looks at it only where it has to wait
		defer c.End()
		return nil, c.gaveUp(ctx, call, "")
	}
	key := fmt.Sprint(ranks)
	c.subs[key]++
	members := sha256.Sum256([]byte(key))
	what := fmt.Sprintf("sub#%x.%d", members[:4], c.subs[key])
	c.tally.count(rowSplit, 0)
	c.End()
	return c.among(ctx, call, what, slices.Clone(ranks), opts)
}

// among makes a communicator of members, in their order, of whom this rank is one. what tells it from others of c.
func (c *Comm) among(ctx context.Context, call, what string, members []int, opts []setup.Option) (*Comm, error) {
	g := &group{Parent: c, id: fmt.Sprintf("%s-%s.%d", c.World.JobID(), what, members[0]), call: call,
		members: members, rank: slices.Index(members, c.Rank)}
	numbers := make(map[int]int)
	for _, r := range members {
		h := c.World.HostOf(r)
		if _, known := numbers[h]; !known {
			numbers[h] = len(numbers)
		}
		g.hosts = append(g.hosts, numbers[h])
	}
	inherited := []setup.Option{func(cfg *setup.Config) {
		cfg.Connect, cfg.HeapBytes = c.Config.Connect, c.Plans.HeapBytes
		if call == "Sub" { // a Split tells all the same
			cfg.Members = members
		}
		cfg.Stall, cfg.StallTimeout, cfg.Logger = c.Config.Stall, c.Config.StallTimeout, c.Config.Logger
		cfg.SplitName = c.Name + "/" + what
	}}
	if sub := c.Graph.Among(g.members); sub.Validate() == nil {
		inherited = append(inherited, func(cfg *setup.Config) { cfg.Graph = sub })
	}
	if c.Config.DeviceGraph != nil {
		if sub := c.Config.DeviceGraph.Among(g.members); sub.Validate() == nil {
			inherited = append(inherited, func(cfg *setup.Config) { cfg.DeviceGraph = sub })
		}
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.whole, cancel)() // some of the others may have heard that c has failed, and come no more
	sub, err := New(within, g, append(inherited, opts...)...)
	if err != nil {
		return nil, c.notMade(ctx, g, err)
	}
	return sub, nil
}

// notMade is why this rank could not make a communicator of g. Where its context has ended that ends c, too: the
// others may have heard of it in an exchange of theirs, or of nothing yet.
func (c *Comm) notMade(ctx context.Context, g *group, err error) error {
	if ctx.Err() != nil {
		c.abort(transport.Faultf(transport.FaultOf(ctx.Err()), c.Rank, "rank %d gave up in %s: %v", c.Rank, g.call, err))
	}
	fault, failed := c.Endpoint.Aborted()
	e := (*setup.RankError)(nil)
	switch {
	case failed && c.Claim(g.call) == nil:
		defer c.End()
		return c.failDuring(fault, g.call, "")
	case c.err != nil:
		return c.rankError(c.err.Rank, g.call, c.err.Err, "")
	case errors.As(err, &e) && e.Rank >= 0: // known by its number in g
		return c.rankError(g.members[e.Rank], g.call, e.Err, "")
	}
	return err
}

// group is the World of some ranks of a communicator.
type group struct {
	Parent  *Comm
	members []int // ranks of the parent, by ours
	hosts   []int // by our ranks, numbered in their order
	rank    int
	id      string
	call    string // Split or Sub
}

func (g *group) Above() setup.World      { return g.Parent.World }
func (g *group) InAbove(r int) int       { return g.members[r] }
func (g *group) Call() string            { return g.call }
func (g *group) Rank() int               { return g.rank }
func (g *group) Size() int               { return len(g.members) }
func (g *group) HostOf(r int) int        { return g.hosts[r] }
func (g *group) Failed() <-chan struct{} { return g.Parent.World.Failed() }
func (g *group) JobID() string           { return g.id }

// Left reports whether a rank has closed the job's World.
func (g *group) Left(r int) bool {
	w, tells := g.Parent.World.(setup.Leaving)
	return tells && w.Left(g.members[r])
}

// Setting returns the job's setting. A plan is for all ranks of the job.
func (g *group) Setting(name string) string {
	if name == setup.SettingPlan {
		return ""
	}
	return g.Parent.World.Setting(name)
}
func (g *group) DeriveKey(purpose string) []byte {
	return g.Parent.World.DeriveKey("group " + g.id + " " + purpose)
}

func (g *group) Epoch() int {
	if n, ok := g.Parent.World.(setup.Networked); ok {
		return n.Epoch()
	}
	return 0
}

func (g *group) ListenAddrs() []netip.Addr {
	if n, ok := g.Parent.World.(setup.Networked); ok {
		return n.ListenAddrs()
	}
	return nil
}

// HostName returns the name of a rank's host, for people.
func (g *group) HostName(r int) string {
	if n, ok := g.Parent.World.(setup.Networked); ok {
		return n.HostName(g.members[r])
	}
	return ""
}

// Failure returns the rank of the group that has failed, -1 for one that is not
// in it.
func (g *group) Failure() (int, error) {
	r, err := g.Parent.World.Failure()
	if err != nil && r >= 0 {
		err = fmt.Errorf("rank %d of %s: %w", r, g.Parent.Name, err)
	}
	return slices.Index(g.members, r), err
}

// AllGather exchanges blobs in messages of the parent.
func (g *group) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	return gatherBlobs(blob, len(g.members), func(mine, all []byte) error { return g.swap(ctx, mine, all) })
}

// swap sends mine to all other members and receives theirs, which are as long.
func (g *group) swap(ctx context.Context, mine, theirs []byte) error {
	c := g.Parent
	// The others wait for this rank by now: a call of another goroutine is let through, and not a reason to fail.
	idle := backoff.Wait{Max: time.Millisecond}
	for err := c.Claim(g.call); err != nil; err = c.Claim(g.call) {
		if !errors.Is(err, setup.ErrBusy) || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		idle.Pause()
	}
	defer c.End()
	c.tally.enter(rowSplit, 0)
	defer waits.Within(ctx).Pause()() // it is c that waits now
	return c.Messages.exchange(ctx, g.call, kernel.Uint8, g.members,
		func(int) []byte { return mine }, func(i int) []byte { return theirs[i*len(mine):][:len(mine)] })
}

// Abort ends the communicator on all ranks.
func (c *Comm) Abort(cause error) {
	f := transport.Faultf(transport.FaultAborted, c.Rank, "rank %d aborted the communicator", c.Rank)
	if cause != nil {
		f.Text += ": " + strings.ReplaceAll(cause.Error(), "\n", "; ")
	}
	c.abort(f)
}
