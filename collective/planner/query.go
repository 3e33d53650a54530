package planner

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// query asks an algorithm for its candidates for a collective on a site.
type query struct {
	site      *Site
	prices    *Prices
	found     *treeSets // trees that take time to find
	algorithm string
	kind      plan.Kind
	root      int // -1 where the kind has none

	treesOnly     bool // the candidates are made for their trees, without rates
	ignoreRequest bool // as if Options named no algorithm
}

// ordered reports whether every element must be added in one fixed order.
func (q *query) ordered() bool { return q.site.ordered(q.kind) }

// requests reports whether Options name an algorithm, so that limits which save time do
// not hold for it.
func (q *query) requests(name string) bool {
	return !q.ignoreRequest && (q.site.requests(name) ||
		name == "hierarchical" && q.site.hosts.alone() && slices.ContainsFunc(betweens, q.site.requests))
}

// candidate returns a candidate of the algorithm, without plans.
func (q *query) candidate() Candidate {
	return Candidate{Algorithm: q.algorithm, Kind: q.kind, Root: q.root}
}

// fixed makes the one candidate of an algorithm without trees.
func (q *query) fixed(build func() (*plan.Plan, error)) []*Candidate {
	c := q.candidate()
	c.fixed = build
	return []*Candidate{&c}
}

// scan makes the one candidate of an algorithm for a Scan or an ExScan.
func (q *query) scan(way plan.Way) ([]*Candidate, error) {
	return q.fixed(func() (*plan.Plan, error) { return plan.NewScan(q.kind, q.site.graph.Ranks, way) }), nil
}

// ofChannels makes the candidates of trees or rings: all of them, each with a share, and,
// for messages that are not worth dividing, the quickest one alone. Nil weights are
// equal.
func (q *query) ofChannels(c Candidate, weights []float64) ([]*Candidate, error) {
	s := q.site
	if s.graph.Ranks == 1 {
		c.Channels, c.Notes, weights = c.Channels[:1], nil, nil // more would be the same again
	}
	if q.ordered() {
		c.order = s.graph.ByHost()
	}
	if err := c.fits(s.graph.Ranks); err != nil {
		return nil, err
	}
	if err := s.routable(c.Channels); err != nil {
		return nil, err
	}
	c.weights = normal(weights, len(c.Channels))
	// The rates and latencies of the channels are computed when first needed. A rank that follows a decision may
	// never need them.
	of, measured, failed := c, false, error(nil)
	c.measure = func() error {
		if !measured {
			measured, failed = true, q.prices.measure(&of)
		}
		return failed
	}
	if q.ordered() && !q.treesOnly { // of some trees there is no plan in order
		if err := c.measure(); err != nil {
			return nil, err
		}
	}
	c.steady = s.machine.Device // whose plans are all laid out when they open
	all, one := c, c
	all.Variant, all.form = variantAll, plan.Split
	one.Variant, one.form = variantOne, plan.Single
	switch {
	case c.Kind == plan.Barrier:
		return []*Candidate{&one}, nil
	case c.OfParts() || len(c.Channels) == 1 && c.Kind != plan.AllReduce || c.Kind.HasParts():
		return []*Candidate{&all}, nil
	}
	return []*Candidate{&one, &all}, nil
}

// overTrees makes the candidates over trees, with their rates as shares; for a collective with a root all are
// rooted there. With ofPart each carries the part of its root alone.
func (q *query) overTrees(f *TreeSet, ofPart bool) ([]*Candidate, error) {
	c := q.candidate()
	if f.Note != "" {
		c.Notes = append(c.Notes, f.Note)
	}
	var notes []string
	for _, t := range f.Trees {
		if t.Note != "" {
			notes = append(notes, t.Note)
		}
		if c.Kind.HasRoot() {
			t = t.Reroot(c.Root)
		}
		c.Channels = append(c.Channels, Channel{Tree: t, OfPart: ofPart})
	}
	slices.Sort(notes)
	c.Notes = append(c.Notes, slices.Compact(notes)...)
	return q.ofChannels(c, f.Rates)
}

// rootedTrees makes a tree for every root of a graph, in order: of all ranks, of those of a host, or of hosts.
type rootedTrees func(s *Site, g *topo.Graph) ([]topo.Tree, error)

// ofRoots returns an algorithm of one tree per root.
func ofRoots(trees rootedTrees) func(q *query) ([]*Candidate, error) {
	return func(q *query) ([]*Candidate, error) {
		f, err := q.found.overSite(q.algorithm, q.site, trees)
		if err != nil {
			return nil, err
		}
		if q.kind.HasRoot() && q.site.uniform {
			f = &TreeSet{Trees: f.Trees[q.root : q.root+1], Note: f.Note}
		}
		return q.overTrees(f, q.kind.HasParts())
	}
}

// ofOwnRoots is ofRoots for trees that are good for their roots: the own tree of a collective's root is a candidate
// besides the quickest one, which is often another's. On request it is the one tree that runs alone.
func ofOwnRoots(trees rootedTrees) func(q *query) ([]*Candidate, error) {
	return func(q *query) ([]*Candidate, error) {
		list, err := ofRoots(trees)(q)
		if err != nil || !q.kind.HasRoot() || len(list[0].Channels) != q.site.graph.Ranks {
			return list, err
		}
		own := *list[0]
		own.own, own.Variant = true, variantOwn
		for _, c := range list {
			c.own = q.requests(q.algorithm)
		}
		return append(list, &own), nil
	}
}

// overSite returns a tree for every root of a site.
func (t *treeSets) overSite(key string, s *Site, trees rootedTrees) (*TreeSet, error) {
	return t.ofRoots(key, s.graph.Ranks, func() (*TreeSet, error) {
		list, err := trees(s, s.full())
		return &TreeSet{Trees: list, Note: tree.Cut(s.full())}, err
	})
}
