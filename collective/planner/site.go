package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Site describes what plans are made for: the links between ranks, the machine that runs the plans, and the options.
// It does not change, but for what it makes when it is needed: it is not for several goroutines at a time.
type Site struct {
	graph   *topo.Graph        // without links where all are equal and none were needed yet: see full
	full    func() *topo.Graph // with links
	found   *topo.Ways         // of full; nil until they are needed
	hosts   *hosts             // nil where all ranks are on one host
	machine Machine
	options Options

	requested    []string    // the algorithms of which Options request one; nil: any will do
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
	s := &Site{graph: g, full: func() *topo.Graph { return g }, uniform: g.IsUniform(), machine: m}
	return s, s.fill(o)
}

// newUniformSite is newSite for a valid graph whose links are all equal: see NewUniform.
func newUniformSite(ranks int, full func() *topo.Graph, m Machine, o Options) (*Site, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Site{graph: &topo.Graph{Ranks: ranks}, full: full, uniform: true, machine: m}
	return s, s.fill(o)
}

// fill sets all that follows from the graph, the machine and valid options.
func (s *Site) fill(o Options) error {
	g := s.graph
	s.options, s.requested = o, o.Suits()
	if o.Given != nil {
		given := o.Given.Plan
		if given.Size != g.Ranks {
			return fmt.Errorf("the given plan is for %d ranks, the graph has %d", given.Size, g.Ranks)
		}
		if s.ordered(given.Kind) {
			if err := plan.VerifyStable(given, g.ByHost(), minSlots); err != nil {
				return fmt.Errorf("the given plan: %w", err)
			}
		}
	}
	if !s.uniform {
		s.disconnected = unlinked(g, s.ways())
		s.hosts = newHosts(g, s.ways())
	}
	s.slots, s.slotBytes = s.shapeOfSlots()
	s.costs = s.simMachine()
	return nil
}

// ways returns the ways between the ranks.
func (s *Site) ways() *topo.Ways {
	if s.found == nil {
		s.found = topo.NewWays(s.full())
	}
	return s.found
}

// Slots returns how many slots of how many bytes every link of a communicator with
// these plans has.
func (s *Site) Slots() (slots, bytes int) { return s.slots, s.slotBytes }

// Costs returns the constants that plans are priced with.
func (s *Site) Costs() sim.Machine { return s.costs }

// unlinked names the first two ranks of a graph without a link or a way over hosts.
func unlinked(g *topo.Graph, ways *topo.Ways) error {
	if g.Ranks > PairRanks || len(g.Links) == g.Ranks*(g.Ranks-1)/2 {
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

// requests reports whether Options name an algorithm.
func (s *Site) requests(algorithm string) bool {
	return slices.ContainsFunc(s.requested, func(request string) bool {
		base, _, _ := strings.Cut(request, ":")
		return base == algorithm
	})
}

// wants reports whether a candidate is one that Options name.
func (s *Site) wants(c *Candidate) bool { return slices.ContainsFunc(s.requested, c.Matches) }

// links returns the number of links of the graph.
func (s *Site) links() int {
	if s.uniform {
		return s.graph.Ranks * (s.graph.Ranks - 1) / 2
	}
	return len(s.graph.Links)
}

// complete reports whether the graph has links between all ranks.
func (s *Site) complete() bool { return s.links() == s.graph.Ranks*(s.graph.Ranks-1)/2 }

// routable reports the first link of trees that the graph has no way for. Rings are found over links.
func (s *Site) routable(list []Channel) error {
	if s.disconnected == nil && s.graph.Ranks <= PairRanks || s.complete() {
		return nil
	}
	for i := range list {
		for v, up := range list[i].Tree.Links() {
			if s.ways().Route(v, up) == nil {
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

// Verify proves a plan: every rank gets the right result, and none waits forever.
func (s *Site) Verify(c *ChosenPlan) error {
	var err error
	if s.ordered(c.Plan.Kind) {
		err = plan.VerifyStable(c.Plan, s.graph.ByHost(), minSlots)
	} else {
		err = plan.Verify(c.Plan, minSlots)
	}
	if err != nil {
		return fmt.Errorf("%v plan %s: %w", c.Plan.Kind, c.Plan.Name, err)
	}
	return nil
}

// Runs reports why there is no plan for a kind, with any options. There is one for kinds without parts but scans.
func (s *Site) Runs(kind plan.Kind) error {
	needsPairs := pairwise(kind) || kind.Scans()
	tooManyLinks := kind.HasParts() && s.hosts != nil // of trees for every part, between hosts
	if s.HasPairs() || !needsPairs && !tooManyLinks {
		return nil
	}
	return reasonf("it is for up to %d ranks, not for %d", PairRanks, s.graph.Ranks)
}

// HasPairs reports whether there are links between all pairs of ranks.
func (s *Site) HasPairs() bool { return s.graph.Ranks <= PairRanks }

// rootsOf returns roots of a kind such that the plans of any other root take the same
// links: of many ranks on several hosts one of each, as the trees of the others are those
// turned round; on one host one, whose trees are those of kinds without a root.
func (s *Site) rootsOf(kind plan.Kind) (roots []int) {
	free := s.requested == nil && !s.ordered(kind)
	switch {
	case s.Runs(kind) != nil:
		return nil
	case !kind.HasRoot() || pairwise(kind):
		return []int{0}
	case free && s.hosts != nil && s.graph.Ranks > directRanks:
		for _, ranks := range s.hosts.ranks {
			roots = append(roots, ranks[0])
		}
		return roots
	case free && s.graph.Ranks > directRanks:
		return []int{0}
	}
	return numbers.Below(s.graph.Ranks)
}
