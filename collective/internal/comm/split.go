package comm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Split is Comm.Split of package collective, or another call of that kind which makes communicators by colors.
func (c *Comm) Split(ctx context.Context, kind call.Kind, color, key int, opts ...setup.Option) (*Comm, error) {
	mine, all := make([]choice, 1), make([]choice, c.Size)
	a := NewArgs(call.ID{Kind: kind}).SetGather(c, kernel.Int64, kernel.BytesOf(mine), kernel.BytesOf(all))
	if err := c.Begin(a); err != nil {
		return nil, err
	}
	p := c.Setup.NewPart(nil, opts)
	mine[0] = choice{int64(color), int64(key), [setup.TermsBytes]byte(p.Terms())}
	err := c.Go(ctx, a, &c.Waiter)
	c.splits++
	what := fmt.Sprintf("split#%d", c.splits)
	c.End()
	switch {
	case err != nil:
		p.Drop(false)
		return nil, err
	case color < 0:
		p.Drop(true)
		return nil, nil
	case c.Plans.Messages < 0:
		p.Drop(true)
		return nil, c.ArgumentError(kind.String(), "it is for %s", c.Plans.NoMessages())
	}
	members, terms := membersOf(color, all), []byte(nil)
	for _, r := range members {
		terms = append(terms, all[r].terms[:]...)
	}
	return newSubComm(ctx, c, kind.String(), what, members, p, terms, opts)
}

// choice is what a rank passes to Split.
type choice struct {
	color, key int64
	terms      [setup.TermsBytes]byte
}

// membersOf returns the ranks of a color, by their keys, of the choices of all ranks.
func membersOf(color int, all []choice) (members []int) {
	for r := range all {
		if all[r].color == int64(color) {
			members = append(members, r)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[a].key, all[b].key) })
	return members
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
		sorted := slices.Sorted(slices.Values(ranks))
		return nil, c.ArgumentError(call, "this rank is not among %s", topo.RankList(sorted))
	case c.Plans.Messages < 0:
		return nil, c.ArgumentError(call, "it is for %s", c.Plans.NoMessages())
	}
	if err := c.Claim(call); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // an exchange checks it only where it has to wait
		defer c.End()
		return nil, c.failure.gaveUp(ctx, call, "")
	}
	key := fmt.Sprint(ranks)
	c.subs[key]++
	members := sha256.Sum256([]byte(key))
	what := fmt.Sprintf("sub#%x.%d", members[:4], c.subs[key])
	c.Tally.count(status.RowSplit, 0)
	p := c.Setup.NewPart(ranks, opts)
	c.End()
	return newSubComm(ctx, c, call, what, slices.Clone(ranks), p, nil, opts)
}

// newSubComm makes a communicator of members, in their order, including this rank. The string what distinguishes it
// from other communicators of these members. They have sent these terms of p, or send them now if terms is nil.
func newSubComm(ctx context.Context, c *Comm, call, what string, members []int, p *setup.Part, terms []byte,
	opts []setup.Option) (*Comm, error) {
	w := newSubWorld(c, call, what, members)
	w.Gather = func(ctx context.Context, mine, all []byte) error {
		return exchange(ctx, c, call, passesAmong(members, mine, all))
	}
	sub, err := newOf(ctx, c, w, p, terms, opts)
	if err != nil {
		return nil, subCommError(ctx, c, w, err)
	}
	return sub, nil
}

// newSubWorld returns the World of a communicator that c will make of members.
func newSubWorld(c *Comm, call, what string, members []int) *setup.SubWorld {
	w := setup.NewSubWorld(c.Setup.World, fmt.Sprint(what, members), members)
	w.Call, w.Name = call, subName(c.Name, what, w.JobID())
	return w
}

// newOf makes the communicator of w, a part of c, which it does not claim for longer than an exchange takes.
func newOf(ctx context.Context, c *Comm, w *setup.SubWorld, p *setup.Part, terms []byte,
	opts []setup.Option) (*Comm, error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	// Where c fails, some other ranks may know it, and not take part any more.
	defer context.AfterFunc(c.ctx, cancel)()
	defer func() { w.Gather = nil }() // which refers to c
	if s, err := p.Make(within, w, terms); err != nil {
		return nil, err
	} else if s != nil {
		return newComm(s), nil
	}
	return New(within, w, append([]setup.Option{c.Setup.Inherited(w)}, opts...)...)
}

// subCommError is why this rank could not make the communicator of w. Where its context has ended that ends c, too:
// other ranks may have learned of it in an exchange of theirs, or may not know it yet.
func subCommError(ctx context.Context, c *Comm, w *setup.SubWorld, err error) error {
	if ctx.Err() != nil {
		kind := transport.FaultOf(ctx.Err())
		c.Links.Abort(transport.Faultf(kind, c.Rank, "rank %d gave up in %s: %v", c.Rank, w.Call, err))
	}
	fault, failed := c.Endpoint.Aborted()
	e := (*setup.RankError)(nil)
	switch none := c.Claim(w.Call); {
	case none == nil && failed:
		defer c.End()
		return c.failure.during(fault, w.Call, "")
	case none == nil:
		c.End()
	case errors.Is(none, setup.ErrBusy) && failed: // by a call of another goroutine, which is about to return the fault
		return rankError(c, fault.Rank, w.Call, setup.ErrorOf(fault), "")
	case !errors.Is(none, setup.ErrBusy) && !errors.Is(none, setup.ErrClosed):
		return none
	}
	if errors.As(err, &e) && e.Rank >= 0 { // known by its number in w
		return rankError(c, w.Members[e.Rank], w.Call, e.Err, "")
	}
	return err
}

// longestName bounds the communicators that a name lists, each made of the one before.
const longestName = 4

// subName returns the name of a part of the communicator parent. In a longer name, digits of the id stand for all but
// the first communicator and the last.
func subName(parent, what, id string) string {
	first, rest, _ := strings.Cut(parent, "/")
	if strings.Count(rest, "/") < longestName-2 && !strings.HasPrefix(rest, "…") {
		return parent + "/" + what
	}
	return first + "/…" + id[len(id)-6:] + "/" + what
}

// passesAmong sends mine to all members, and receives theirs, which are as long.
func passesAmong(members []int, mine, all []byte) []p2p.Pass {
	passes := make([]p2p.Pass, len(members))
	for i, r := range members {
		passes[i] = p2p.Pass{Peer: r, Out: mine, In: all[i*len(mine):][:len(mine)]}
	}
	return passes
}

// exchange claims c for an exchange of messages, which are parts of a call that makes a communicator of some of its
// ranks.
func exchange(ctx context.Context, c *Comm, call string, passes []p2p.Pass) error {
	// The others wait for this rank by now: a call of another goroutine is let through, and not a reason to fail.
	idle := backoff.Wait{Max: time.Millisecond}
	for err := c.Claim(call); err != nil; err = c.Claim(call) {
		if !errors.Is(err, setup.ErrBusy) || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		idle.Pause()
	}
	defer c.End()
	c.Tally.enter(status.RowSplit, 0)
	defer waits.Within(ctx).Pause()() // it is c that waits now
	return c.Messages.exchange(ctx, call, passes)
}

// The purposes of the SubWorlds in which all ranks of a communicator open something.
const (
	openDevices  = "devices"
	openExchange = "exchange"
)

// newInnerWorld returns the World of all ranks of c for opening the links or devices that what names, or for measuring
// the network. Its AllGather is a call of c of that kind, which is claimed: a rank that makes another call is detected,
// and nothing new needs to be trusted. Several communicators that open links at the same time do not interfere.
func newInnerWorld(c *Comm, what string, kind call.Kind) *setup.SubWorld {
	id := call.ID{Kind: kind, Device: what == openDevices}
	w := setup.NewSubWorld(c.Setup.World, what, numbers.Below(c.Size))
	w.Gather = func(ctx context.Context, mine, all []byte) error {
		return heldGather(ctx, c, NewArgs(id).SetGather(c, kernel.Uint8, mine, all), &c.Waiter)
	}
	return w
}
