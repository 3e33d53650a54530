package planner

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Planner chooses plans for one graph, machine and options. It keeps its results, and is not for several goroutines at
// a time.
type Planner struct {
	Site   *Site
	Prices *Prices

	found      map[string]*TreeSet // trees that take time to find, by their use
	noRings    error               // why there are none
	candidates map[use]*candidateSet
	bare       bool // candidates are made for their trees, without rates
	any        bool // algorithms are made without looking at Options.Algorithm
	tables     [plan.AllToAll + 1][]*entry
	cheapestAt map[size]DecidedChoice // by root 0
}

// size is of messages of a kind.
type size struct {
	kind  plan.Kind
	bytes int64
}

// use is the use that candidates are made for.
type use struct {
	kind plan.Kind
	root int
}

// candidateSet is the candidates for a use, and the algorithms that have none.
type candidateSet struct {
	list    []*Candidate
	without []Considered
}

// TreeSet is trees that take time to find, by the name under which a Planner keeps them.
// Rates is nil where they get equal shares.
type TreeSet struct {
	Key   string
	Trees []topo.Tree
	Rates []float64
	Note  string
}

// New returns a Planner for a graph. The error is for a graph that is not valid, or
// options that make no sense together.
func New(g *topo.Graph, m Machine, o Options) (*Planner, error) {
	s, err := newSite(g, m, o)
	if err != nil {
		return nil, err
	}
	return &Planner{Site: s, Prices: newPrices(s), found: make(map[string]*TreeSet),
		candidates: make(map[use]*candidateSet), cheapestAt: make(map[size]DecidedChoice)}, nil
}

// treeSet returns trees of n vertices that were found before, by p or by the rank whose
// decision it follows, or that search finds now.
func (p *Planner) treeSet(key string, n int, search func() (*TreeSet, error)) (*TreeSet, error) {
	if f, ok := p.found[key]; ok {
		if have := len(f.Trees[0].Parent); have != n {
			return nil, fmt.Errorf("trees %q have %d vertices, want %d", key, have, n)
		}
		return f, nil
	}
	f, err := search()
	if err == nil {
		f.Key, p.found[key] = key, f
	}
	return f, err
}

// ofRoots reports trees that are not one for every root, in order. It takes a nil
// TreeSet.
func (f *TreeSet) ofRoots() error {
	if f == nil {
		return nil
	}
	for i, t := range f.Trees {
		if t.Root != i || len(f.Trees) != len(t.Parent) {
			return fmt.Errorf("tree %d of %d for %d roots is of root %d", i, len(f.Trees), len(t.Parent), t.Root)
		}
	}
	return nil
}

// candidatesFor returns the candidates for a kind and root: those of the algorithm that is requested, or all. Where
// that one has no plan for the kind, all are: it holds for the collectives that it offers.
func (p *Planner) candidatesFor(kind plan.Kind, root int) (*candidateSet, error) {
	if !kind.HasRoot() {
		root = -1
	}
	u := use{kind, root}
	if o, ok := p.candidates[u]; ok && !p.bare {
		return o, nil
	}
	o := &candidateSet{}
	suits := p.Site.options.Suits()
	collect := func(all bool) {
		for i := range algorithms {
			a := &algorithms[i]
			if !all && !p.asked(a.name) {
				continue
			}
			list, err := p.candidatesOf(a, kind, root)
			told := slices.ContainsFunc(o.without, func(c Considered) bool { return c.Algorithm == a.name })
			if err != nil && !told {
				o.without = append(o.without, Considered{Algorithm: a.name, Why: err.Error()})
			}
			for _, c := range list {
				again := !p.bare && slices.ContainsFunc(o.list, c.like)
				if !again && (all || slices.ContainsFunc(suits, c.Matches)) {
					o.list = append(o.list, c)
				}
			}
		}
	}
	if suits != nil {
		collect(false)
	}
	if len(o.list) == 0 {
		p.any = true
		collect(true)
		p.any = false
	}
	if len(o.list) == 0 {
		return nil, fmt.Errorf("no algorithm has a plan for %v on %d ranks: %s", kind, p.Site.graph.Ranks,
			joinReasons(o.without))
	}
	if !p.bare {
		p.candidates[u] = o
	}
	return o, nil
}

// named returns the candidate with a name; nil where there is none.
func named(list []*Candidate, name string) *Candidate {
	for _, c := range list {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// ofChannels makes the candidates of trees or rings: all of them, each with a share, and,
// for messages that are not worth dividing, the quickest one alone. Nil weights are
// equal.
func (p *Planner) ofChannels(c Candidate, weights []float64) ([]*Candidate, error) {
	if p.Site.graph.Ranks == 1 {
		c.Channels, c.Notes, weights = c.Channels[:1], nil, nil // more would be the same again
	}
	if p.Site.ordered(c.Kind) {
		c.order = p.Site.graph.ByHost()
	}
	if err := c.fits(p.Site.graph.Ranks); err != nil {
		return nil, err
	}
	if err := p.Site.routable(c.Channels); err != nil {
		return nil, err
	}
	c.weights = normal(weights, len(c.Channels))
	// The rates and latencies of the channels are computed when first needed. A rank that follows a decision may never
	// need them.
	of, measured, failed := c, false, error(nil)
	c.measure = func() error {
		if !measured {
			measured, failed = true, p.Prices.measure(&of)
		}
		return failed
	}
	if p.Site.ordered(c.Kind) && !p.bare { // of some trees there is no plan in order
		if err := c.measure(); err != nil {
			return nil, err
		}
	}
	c.steady = p.Site.machine.Device // whose plans are all laid out when they open
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

// fits reports channels for which a plan has too few lanes.
func (c *Candidate) fits(ranks int) error {
	each := 1
	if c.Channels[0].Ring != nil && !c.Kind.HasRoot() || c.Kind.HasParts() && !c.OfParts() {
		each = ranks
	}
	if lanes := each * len(c.Channels); lanes > plan.MaxLanes {
		return reasonf("%v needs %d lanes for %d trees or rings, and a plan has at most %d: "+
			"packing,max-trees=K takes fewer", c.Kind, lanes, len(c.Channels), plan.MaxLanes)
	}
	return nil
}

// overTrees makes the candidates like c over trees, with their rates as shares; for a collective with a root all are
// rooted there. With ofPart each carries the part of its root alone.
func (p *Planner) overTrees(c Candidate, f *TreeSet, ofPart bool) ([]*Candidate, error) {
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
	return p.ofChannels(c, f.Rates)
}
