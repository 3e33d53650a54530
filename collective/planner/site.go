package planner

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
)

// Site describes what plans are made for: the links between ranks, the machine that runs the plans, and the options.
// It does not change.
type Site struct {
	graph   *topo.Graph
	ways    *topo.Ways
	hosts   *hosts // nil where all ranks are on one host
	machine Machine
	options Options

	uniform      bool        // all links of the graph are equal
	disconnected error       // names two ranks without a link or a way over hosts; nil: there are none
	slots        int         // of every link
	slotBytes    int         // of every slot
	costs        sim.Machine // the constants that plans are priced with
}

// newSite returns the Site of a graph. The error is for a graph that is not valid, or options that make no sense
// together.
func newSite(g *topo.Graph, m Machine, o Options) (*Site, error) {
	g = g.Canonical() // plans do not depend on the order in which links are given
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	s := &Site{graph: g, ways: topo.NewWays(g), machine: m, options: o, uniform: g.IsUniform()}
	if o.Given != nil {
		given := o.Given.Plan
		if given.Size != g.Ranks {
			return nil, fmt.Errorf("the given plan is for %d ranks, the graph has %d", given.Size, g.Ranks)
		}
		if s.ordered(given.Kind) {
			if err := plan.VerifyStable(given, g.ByHost(), minSlots); err != nil {
				return nil, fmt.Errorf("the given plan: %w", err)
			}
		}
	}
	s.disconnected = unlinked(g, s.ways)
	s.hosts = newHosts(g, s.ways)
	s.slots, s.slotBytes = s.shapeOfSlots()
	s.costs = s.simMachine()
	return s, nil
}

// Slots returns how many slots of how many bytes every link of a communicator with
// these plans has.
func (s *Site) Slots() (slots, bytes int) { return s.slots, s.slotBytes }

// Costs returns the constants that plans are priced with.
func (s *Site) Costs() sim.Machine { return s.costs }

// unlinked names the first two ranks of a graph without a link or a way over hosts.
func unlinked(g *topo.Graph, ways *topo.Ways) error {
	if g.Ranks > PairRanks || complete(g) {
		return nil // not needed
	}
	for a := range g.Ranks {
		for b := range a {
			if ways.Route(a, b) == nil {
				return reasonf("the graph has no link between ranks %d and %d", b, a)
			}
		}
	}
	return nil
}

// routable reports the first link of trees that the graph has no way for. Rings are found over links.
func (s *Site) routable(list []Channel) error {
	if s.disconnected == nil && s.graph.Ranks <= PairRanks || complete(s.graph) {
		return nil
	}
	for i := range list {
		for v, up := range list[i].Tree.Links() {
			if s.ways.Route(v, up) == nil {
				return reasonf("the graph has no link between ranks %d and %d", v, up)
			}
		}
	}
	return nil
}

// ChunkBytes is the size of the chunks in which the widest lane of a plan moves its part of a message of the given
// number of bytes.
func (s *Site) ChunkBytes(c *ChosenPlan, bytes int64) int {
	return c.Chunks.Of(widestShare(c.Plan, bytes), 1, 1, s.slotBytes)
}

// Verify proves a plan that is served: every rank gets the right result, and none waits forever.
func (s *Site) Verify(c *ChosenPlan) error {
	err := plan.Verify(c.Plan, minSlots)
	if s.ordered(c.Plan.Kind) {
		err = plan.VerifyStable(c.Plan, s.graph.ByHost(), minSlots)
	}
	if err != nil {
		return fmt.Errorf("%v plan %s: %w", c.Plan.Kind, c.Plan.Name, err)
	}
	return nil
}
