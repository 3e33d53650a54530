package sparse

import (
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/drive"
	"github.com/treerun/treerun/internal/comm"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// state is what the package keeps with a communicator, from its first call on.
type state struct {
	c          *comm.Inside
	openLinks  func(context.Context, string, string, transport.Layout) (transport.Endpoint, error)
	priceDense func(bytes int) float64
	lanes      drive.Lanes
	servers    []int       // ranks that only aggregate: they were in Serve when the latest call began
	workers    []int       // by rank: its number among the others, -1: it is one of them
	aggs       []int       // the stars of aggregators, by their numbers in lanes
	trees      []topo.Tree // the communicator's, each once
	shares     []float64
	merged     []int // their numbers in lanes
	opened     int   // links so far
	links      *drive.Links
	ep         transport.Endpoint
	stale      bool // these links are of other servers
	omni       *drive.Omni
	merge      *drive.Merge
	host       *drive.Pool // nil until a call in the form Shared
	tensor     uint32      // number of the latest call
	set        block.Set
	swept      block.Set   // of sweep
	parts      []block.Set // by tree
	deal       *block.Deal
	prices     map[int]float64
	stage      *stage          // nil before the first call on device memory
	reported   map[choice]bool // by report
	combine    *block.Combiner
}

// maxAggregators bounds the aggregators, and with them the links.
const maxAggregators = 16

func stateOf(c *comm.Inside) *state {
	if s, ok := c.State.(*state); ok {
		return s
	}
	s := &state{c: c, openLinks: c.OpenLinks, priceDense: c.DenseUs, prices: make(map[int]float64),
		reported: make(map[choice]bool)}
	s.arrange(nil)
	c.State = s
	return s
}

// arrange lays out the lanes of links that are still to be opened: where ranks serve, stars of the workers
// around each; else stars of all ranks around some, and the communicator's trees.
func (s *state) arrange(servers []int) {
	s.servers, s.workers, s.stale = servers, slices.Repeat([]int{-1}, s.c.Size), true
	s.lanes, s.aggs, s.trees, s.shares, s.merged = drive.Lanes{}, nil, nil, nil, nil
	workers := 0
	for r := range s.workers {
		if !slices.Contains(servers, r) {
			s.workers[r] = workers
			workers++
		}
	}
	roots := servers
	if len(servers) == 0 {
		n := min(s.c.Size, maxAggregators)
		for a := range n {
			roots = append(roots, a*s.c.Size/n)
		}
	}
	for _, root := range roots {
		star := topo.Tree{Root: root, Parent: slices.Repeat([]int{-1}, s.c.Size)}
		for r, w := range s.workers {
			if w >= 0 && r != root {
				star.Parent[r] = root
			}
		}
		s.aggs = append(s.aggs, s.lanes.Add(star))
	}
	if len(servers) == 0 {
		s.takeTrees()
	}
}

// Of the links: what a rank's slots may take, in bytes, how many a link has, and
// between which sizes they are. Between hosts there are more, and the budget is larger by
// as much, though memory is there for what is under way only: a rank merges no more than
// the slowest of its children has sent, and with fewer slots the others' cards are idle
// meanwhile.
const (
	linkBudget   = 6 << 20
	linkSlots    = 8
	farSlots     = 32
	minSlot      = 4 << 10
	maxSlot      = 32 << 10
	packetExtra  = 64 // what protocols add to a block, and room
	slotsQuantum = 64
)

// open opens links whose slots hold a block of so many bytes, unless they are open.
// All ranks call it together.
func (s *state) open(ctx context.Context, during string, blockBytes int) error {
	if s.ep != nil && !s.stale && s.ep.MaxPayload() >= blockBytes+packetExtra {
		return nil
	}
	layout := layoutOf(&s.lanes, s.c.Size, blockBytes)
	if s.severalHosts() {
		layout.Slots = farSlots
	}
	s.opened++
	ep, err := s.openLinks(ctx, during, fmt.Sprintf("sparse %d", s.opened), layout)
	if err != nil {
		return err
	}
	links, err := drive.Open(ep, &s.lanes, s.c.Rank, s.c.Size)
	if err != nil {
		return s.broken(during, err)
	}
	old := s.ep
	s.ep, s.links, s.stale = ep, links, false
	s.omni, s.merge = drive.NewOmni(links, s.aggs, s.workers), drive.NewMerge(links, s.merged)
	if old == nil {
		return nil
	}
	// What went over the old links is done on all ranks: each has come to the present call.
	if err := s.c.CloseLinks(old); err != nil {
		return s.broken(during, fmt.Errorf("closing links that were too small: %w", err))
	}
	return nil
}

// severalHosts reports whether not all ranks are on one host.
func (s *state) severalHosts() bool {
	return slices.ContainsFunc(s.c.Hosts, func(h int) bool { return h != s.c.Hosts[0] })
}

// layoutOf returns the layout of lanes between so many ranks.
func layoutOf(lanes *drive.Lanes, size, blockBytes int) transport.Layout {
	bytes := linkBudget / (linkSlots * lanes.Most(size))
	bytes = max(min(max(bytes, minSlot), maxSlot), blockBytes+packetExtra)
	return lanes.Layout(size, linkSlots, (bytes+slotsQuantum-1)/slotsQuantum*slotsQuantum)
}
