package sparse

import (
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/drive"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// state is the package's state of a communicator, from its first call on.
type state struct {
	c                        *comm.Comm
	inside                   *comm.Inside // of c
	openLinks                func(context.Context, string, string, transport.Layout) (transport.Endpoint, error)
	servers                  []int       // ranks that only aggregate: they were in Serve when the latest call began
	trees                    treeLinks   // the communicator's, each once
	stars                    treeLinks   // around ranks that aggregate
	opened                   int         // number of times that links were opened
	host                     *drive.Pool // nil until a call in the form Shared
	tensor                   uint32      // number of the latest call
	set                      block.Set
	united                   block.Set // blocks that any rank has
	zeros                    kernel.Pieces
	parts                    []block.Set // by tree
	deal                     *block.Deal
	hostPrices, devicePrices *prices
	stage                    *stage          // nil before the first call on device memory
	reported                 map[string]bool // by report
	sums                     []byte          // sums of a rank that serves, in the blocks' places
}

// treeLinks is a set of trees of ranks, to which blocks are dealt by share, and their links.
type treeLinks struct {
	trees  []topo.Tree
	shares []float64
	ep     transport.Endpoint // nil before the first call
	run    *drive.Trees       // nil: the links are still to be opened
}

// add adds a tree to f, unless f has it: the chunks of two equal trees would use the same links.
func (f *treeLinks) add(t topo.Tree, share float64) {
	for i := range f.trees {
		if slices.Equal(f.trees[i].Parent, t.Parent) {
			f.shares[i] += share
			return
		}
	}
	f.trees, f.shares = append(f.trees, t), append(f.shares, share)
}

// maxAggregators is the maximum number of aggregators among ranks with tensors, which limits the number of links.
const maxAggregators = 16

func stateOf(inside *comm.Inside) *state {
	if s, ok := inside.State.(*state); ok {
		return s
	}
	c := inside.Comm
	s := &state{c: c, inside: inside, openLinks: c.Links.Open, hostPrices: newPrices(inside.DenseUs),
		devicePrices: newPrices(inside.DenseDeviceUs), reported: make(map[string]bool)}
	for i, t := range inside.Trees {
		s.trees.add(t, inside.Shares[i])
	}
	s.arrange(nil)
	inside.State = s
	return s
}

// arrange builds the stars, whose links are not opened yet: if ranks serve, stars of the workers around each of these;
// otherwise stars of all ranks around some of them.
func (s *state) arrange(servers []int) {
	s.servers = servers
	s.stars = treeLinks{ep: s.stars.ep}
	roots := servers
	if len(servers) == 0 {
		n := min(s.c.Size, maxAggregators)
		for a := range n {
			roots = append(roots, a*s.c.Size/n)
		}
	}
	for _, root := range roots {
		star := topo.Tree{Root: root, Parent: slices.Repeat([]int{root}, s.c.Size)}
		star.Parent[root] = -1
		for _, q := range servers {
			star.Parent[q] = -1 // no part of it
		}
		s.stars.add(star, 1)
	}
}

// Limits of the links: the bytes of all slots of a rank, the number of slots of a link, and the smallest and largest
// slot. Between hosts there are more slots, and the budget is larger by the same factor, though only blocks in flight
// take memory: a rank cannot merge more than the slowest of its children has sent, and with fewer slots the cards of
// the others are idle meanwhile.
const (
	linkBudget   = 6 << 20
	linkSlots    = 8
	farSlots     = 32
	minSlot      = 4 << 10
	maxSlot      = 32 << 10
	packetExtra  = 64 // header and padding that protocols add to a block
	slotsQuantum = 64
)

// open opens links of f whose slots hold a block of the given size in bytes, unless they are open. All ranks call it
// together.
func (s *state) open(ctx context.Context, f *treeLinks, during string, blockBytes int) error {
	if f.run != nil && f.ep.MaxPayload() >= blockBytes+packetExtra {
		return nil
	}
	s.opened++
	ep, err := s.openLinks(ctx, during, fmt.Sprintf("sparse %d", s.opened), s.layoutOf(f, blockBytes))
	if err != nil {
		return err
	}
	old := f.ep
	f.ep = ep
	if f.run, err = drive.NewTrees(ep, f.trees, s.c.Rank); err != nil {
		return s.broken(during, err)
	}
	if old == nil {
		return nil
	}
	// All transfers over the old links are done on all ranks: each has begun the present call.
	if err := s.c.Links.Close(old); err != nil {
		return s.broken(during, fmt.Errorf("closing links that were too small: %w", err))
	}
	return nil
}

// severalHosts reports whether not all ranks are on one host.
func (s *state) severalHosts() bool {
	return slices.ContainsFunc(s.inside.Hosts, func(h int) bool { return h != s.inside.Hosts[0] })
}

// layoutOf returns the layout of the links of f.
func (s *state) layoutOf(f *treeLinks, blockBytes int) transport.Layout {
	l := transport.Layout{Size: s.c.Size}
	out := make([]int, s.c.Size) // links from each rank
	for _, t := range f.trees {
		for v, p := range t.Parent {
			if p >= 0 {
				out[v]++
				out[p]++
			}
		}
	}
	bytes := linkBudget / (linkSlots * max(1, slices.Max(out)))
	bytes = max(min(max(bytes, minSlot), maxSlot), blockBytes+packetExtra)
	l.SlotBytes = (bytes + slotsQuantum - 1) / slotsQuantum * slotsQuantum
	if l.Slots = linkSlots; s.severalHosts() {
		l.Slots = farSlots
	}
	return l
}
