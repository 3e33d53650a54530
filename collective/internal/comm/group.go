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

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/backoff"
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
	a := (&Args{as: engine.Splits}).SetGather(c, kernel.Int64, mine, gathered)
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
	if ctx.Err() != nil { // an exchange checks it only where it has to wait
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

// among makes a communicator of members, in their order, including this rank. The string what distinguishes it from
// other communicators of these members.
func (c *Comm) among(ctx context.Context, call, what string, members []int, opts []setup.Option) (*Comm, error) {
	g := c.part(call, what, members)
	sub, err := g.make(ctx, opts)
	if err != nil {
		return nil, c.notMade(ctx, g, err)
	}
	g.making = nil
	return sub, nil
}

// part is the World of a communicator that c will make of members.
func (c *Comm) part(call, what string, members []int) *group {
	g := newGroup(c, c.idOf(fmt.Sprint(what, members)), members)
	g.making = &making{parent: c, members: members, call: call, name: c.partName(what, g.id)}
	return g
}

// make makes the communicator. It does not claim that of which g is a part for longer than an exchange takes.
func (g *group) make(ctx context.Context, opts []setup.Option) (*Comm, error) {
	c, members, call := g.parent, g.members, g.call
	of := c.Setup.Config
	inherited := []setup.Option{func(cfg *setup.Config) {
		cfg.Connect, cfg.HeapBytes = of.Connect, c.Plans.HeapBytes
		if call == "Sub" { // a Split gives the same members to all
			cfg.Members = members
		}
		cfg.Stall, cfg.StallTimeout, cfg.Logger = of.Stall, of.StallTimeout, of.Logger
		cfg.SplitName = g.name
	}}
	if sub := c.Setup.Graph.Among(members); sub.Validate() == nil {
		inherited = append(inherited, func(cfg *setup.Config) { cfg.Graph = sub })
	}
	if of.DeviceGraph != nil {
		if sub := of.DeviceGraph.Among(members); sub.Validate() == nil {
			inherited = append(inherited, func(cfg *setup.Config) { cfg.DeviceGraph = sub })
		}
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.whole, cancel)() // some other ranks may know that c has failed, and not take part any more
	return New(within, g, append(inherited, opts...)...)
}

// notMade is why this rank could not make a communicator of g. Where its context has ended that ends c, too: other
// ranks may have learned of it in an exchange of theirs, or may not know it yet.
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

// idOf returns the id of a part of c, of fixed length: a digest of the id of c and of the string what.
func (c *Comm) idOf(what string) string {
	job, _ := setup.InJob(c.Setup.World)
	sum := sha256.Sum256([]byte(c.Setup.World.JobID() + " " + what))
	return fmt.Sprintf("%s-%x", job.JobID(), sum[:16])
}

// longestName bounds the communicators that a name lists, each made of the one before.
const longestName = 4

// partName returns the name of a part of c. In a longer name, digits of the id stand for all but the first communicator
// and the last.
func (c *Comm) partName(what, id string) string {
	first, rest, _ := strings.Cut(c.Name, "/")
	if strings.Count(rest, "/") < longestName-2 && !strings.HasPrefix(rest, "…") {
		return c.Name + "/" + what
	}
	return first + "/…" + id[len(id)-6:] + "/" + what
}

// group is the World of some ranks of the job. It keeps no reference to the communicator of which its own was made.
type group struct {
	setup.World       // the job's
	ranks       []int // of the job, by ours
	hosts       []int // by our ranks, numbered in their order
	rank        int
	id          string
	*making     // nil once the communicator exists
}

// making is the state of a Split, Sub or StartDup under way.
type making struct {
	parent  *Comm
	members []int // ranks of the parent, by ours
	call    string
	name    string      // of the communicator
	started *StartedDup // of a StartDup, whose messages move during the calls of the parent
}

// newGroup returns the World of members, ranks of c, including this rank.
func newGroup(c *Comm, id string, members []int) *group {
	job, ranks := setup.InJob(c.Setup.World)
	g := &group{World: job, id: id, rank: slices.Index(members, c.Rank)}
	numbers := make(map[int]int)
	for _, r := range members {
		h := c.Setup.World.HostOf(r)
		if _, known := numbers[h]; !known {
			numbers[h] = len(numbers)
		}
		g.hosts = append(g.hosts, numbers[h])
		if ranks != nil {
			r = ranks[r]
		}
		g.ranks = append(g.ranks, r)
	}
	return g
}

func (g *group) InJob() (setup.World, []int) { return g.World, g.ranks }
func (g *group) InParent(r int) int          { return g.members[r] }
func (g *group) Call() string                { return g.call }
func (g *group) Rank() int                   { return g.rank }
func (g *group) Size() int                   { return len(g.ranks) }
func (g *group) HostOf(r int) int            { return g.hosts[r] }
func (g *group) JobID() string               { return g.id }

// Left reports whether a rank has closed the job's World.
func (g *group) Left(r int) bool {
	w, tells := g.World.(setup.Leaving)
	return tells && w.Left(g.ranks[r])
}

// Gone reports whether a rank has closed the job's World or has failed.
func (g *group) Gone(r int) bool {
	w, reports := g.World.(setup.Outlasting)
	return reports && w.Gone(g.ranks[r])
}

// Setting returns the job's setting. A plan is for all ranks of the job.
func (g *group) Setting(name string) string {
	if name == setup.SettingPlan {
		return ""
	}
	return g.World.Setting(name)
}
func (g *group) DeriveKey(purpose string) []byte {
	return g.World.DeriveKey("group " + g.id + " " + purpose)
}

func (g *group) Epoch() int {
	if n, ok := g.World.(setup.Networked); ok {
		return n.Epoch()
	}
	return 0
}

func (g *group) ListenAddrs() []netip.Addr {
	if n, ok := g.World.(setup.Networked); ok {
		return n.ListenAddrs()
	}
	return nil
}

// HostName returns the name of a rank's host, for users.
func (g *group) HostName(r int) string {
	if n, ok := g.World.(setup.Networked); ok {
		return n.HostName(g.ranks[r])
	}
	return ""
}

// Failure returns the rank of the group that has failed, -1 for one that is not
// in it.
func (g *group) Failure() (int, error) {
	r, err := g.World.Failure()
	if err != nil && r >= 0 {
		err = fmt.Errorf("rank %d of %s: %w", r, setup.FirstName, err)
	}
	return slices.Index(g.ranks, r), err
}

// AllGather exchanges blobs in messages of the parent.
func (g *group) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	return gatherBlobs(blob, len(g.ranks), func(mine, all []byte) error { return g.swap(ctx, mine, all) })
}

// swap sends mine to all other members and receives theirs, which are as long.
func (g *group) swap(ctx context.Context, mine, theirs []byte) error {
	c, passes := g.parent, make([]engine.Pass, len(g.members))
	for i, r := range g.members {
		passes[i] = engine.Pass{Peer: r, Out: mine, In: theirs[i*len(mine):][:len(mine)]}
	}
	if g.started != nil {
		defer waits.Within(ctx).Pause()() // a rank that does not Wait for it is no rank that waits
		return g.started.exchange(ctx, passes)
	}
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
	return c.Messages.exchange(ctx, g.call, passes)
}

// Abort ends the communicator on all ranks.
func (c *Comm) Abort(cause error) {
	f := transport.Faultf(transport.FaultAborted, c.Rank, "rank %d aborted the communicator", c.Rank)
	if cause != nil {
		f.Text += ": " + strings.ReplaceAll(cause.Error(), "\n", "; ")
	}
	c.abort(f)
}
