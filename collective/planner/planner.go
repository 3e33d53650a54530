package planner

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Planner chooses plans for one graph, machine and options. It keeps its results, and is not for several goroutines at
// a time.
type Planner struct {
	Site   *Site
	Prices *Prices
	finder *finder
	tables [plan.ExScan + 1]*table // by kind
}

// New returns a Planner for a graph. The error is for a graph that is not valid, or
// options that make no sense together.
func New(g *topo.Graph, m Machine, o Options) (*Planner, error) {
	return newPlanner(newSite(g, m, o))
}

// NewUniform is New for a valid graph of ranks of one host whose links are all equal, without ports. full returns it
// when its links are needed, the same each time: prices need them, and the plans of a Decision mostly do not.
func NewUniform(ranks int, full func() *topo.Graph, m Machine, o Options) (*Planner, error) {
	return newPlanner(newUniformSite(ranks, full, m, o))
}

func newPlanner(s *Site, err error) (*Planner, error) {
	if err != nil {
		return nil, err
	}
	p := &Planner{Site: s, Prices: newPrices(s)}
	p.finder = &finder{site: s, prices: p.Prices, found: treeSets{byKey: make(map[string]*TreeSet)},
		known: make(map[collective]*candidateSet)}
	for kind := range p.tables {
		p.tables[kind] = newTable(plan.Kind(kind), p.finder)
	}
	return p, nil
}

// Detach removes what callers have attached to plans, and the function of StopBy.
func (p *Planner) Detach() {
	p.StopBy(nil)
	for _, t := range p.tables {
		for _, r := range t.ranges {
			for _, c := range r.plans {
				if c != nil {
					c.Attached = nil
				}
			}
		}
	}
}

// StopBy sets a function that is called often while plans are priced, nil for none. Once it returns true, a choice ends
// with sim.ErrStopped.
func (p *Planner) StopBy(stop func() bool) {
	p.Prices.stop = stop
	if m := p.Prices.made; m != nil {
		m.Stop = stop
	}
}

// Choose returns the plan of a call with a message of the given number of bytes, of all parts together where the kind
// has parts. A root below 0 means none, or 0.
func (p *Planner) Choose(kind plan.Kind, root int, bytes int64) (*Choice, error) {
	s, err := p.PlanFor(kind, root, bytes)
	if err != nil {
		return nil, err
	}
	c := &Choice{Chosen: s, Bytes: bytes, Rate: p.Prices.FullRate(s)}
	c.PredictedUs, err = p.Prices.Predict(s, bytes, 1)
	if !p.Site.options.Given.serves(kind, root) {
		c.By = p.tables[kind].by(bytes)
		if root > 0 && kind.HasRoot() && !p.Site.uniform && strings.HasPrefix(c.By, "price") {
			c.By += ", for root 0"
		}
		return c, err
	}
	if c.By = "a plan file"; err != nil { // it joins ranks that the graph does not
		c.PredictedUs = math.NaN()
	}
	return c, nil
}

// PlanFor returns the plan that runs the calls of a kind and root with messages of the given number of bytes.
func (p *Planner) PlanFor(kind plan.Kind, root int, bytes int64) (*ChosenPlan, error) {
	if root < 0 || !kind.HasRoot() {
		root = 0
	}
	if g := p.Site.options.Given; g.serves(kind, root) {
		return g, nil
	}
	t := p.tables[kind]
	r, err := t.rangeOf(bytes)
	if err != nil {
		return nil, err
	}
	return t.planOf(root, r)
}

// AllPlans returns the plans of a kind for all sizes and roots, in an order that is the
// same on all ranks.
func (p *Planner) AllPlans(kind plan.Kind) ([]*ChosenPlan, error) {
	t := p.tables[kind]
	ranges, err := t.all()
	if err != nil {
		return nil, err
	}
	roots := 1
	if kind.HasRoot() {
		roots = p.Site.graph.Ranks
	}
	var list []*ChosenPlan
	if g := p.Site.options.Given; g != nil && g.Plan.Kind == kind {
		list = append(list, g)
	}
	for _, r := range ranges {
		for root := range roots {
			s, err := t.planOf(root, r)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	return list, nil
}

// Table returns the plans that run a kind, by rising size.
func (p *Planner) Table(kind plan.Kind) ([]*Range, error) {
	list, err := p.tables[kind].all()
	same := func(a, b *Range) bool { return a.Algorithm == b.Algorithm && a.Chunks == b.Chunks }
	return slices.CompactFunc(list, same), err
}

// CandidateNames returns the names of the candidates for a kind.
func (p *Planner) CandidateNames(kind plan.Kind) []string {
	set, err := p.finder.candidates(kind, 0)
	if err != nil {
		return nil
	}
	return namesOf(set.list, (*Candidate).Name)
}

// Consider prices all candidates for one size, the best first, followed by the reasons why the other algorithms have
// none.
func (p *Planner) Consider(kind plan.Kind, root int, bytes int64) ([]Considered, error) {
	set, err := p.finder.candidates(kind, max(root, 0))
	if err != nil {
		return nil, err
	}
	var list []Considered
	for _, c := range set.list {
		b, err := c.build(bytes)
		if err != nil {
			return nil, err
		}
		us, _, err := p.Prices.price(b, bytes, math.Inf(1))
		if err != nil {
			return nil, err
		}
		list = append(list, Considered{Algorithm: c.Name(), PredictedUs: us})
	}
	slices.SortStableFunc(list, func(a, b Considered) int { return cmp.Compare(a.PredictedUs, b.PredictedUs) })
	return append(list, set.without...), nil
}

// Supports reports why the algorithm that the options request has no plan for a kind and root, so that others are
// taken; nil where it has, or none is requested.
func (p *Planner) Supports(kind plan.Kind, root int) error {
	if err := p.Site.Runs(kind); err != nil {
		return err
	}
	set, err := p.finder.candidates(kind, max(root, 0))
	if err != nil {
		return err
	}
	requested := p.Site.requested
	if requested == nil || p.Site.options.Given.serves(kind, max(root, 0)) {
		return nil
	}
	if slices.ContainsFunc(set.list, p.Site.wants) {
		return nil
	}
	for _, request := range requested {
		if _, variant, _ := strings.Cut(request, ":"); variantNeeds[variant] != "" {
			return reasonf("%s has no plan for %v here: %s", request, kind, variantNeeds[variant])
		}
	}
	for _, w := range set.without {
		if p.Site.requests(w.Algorithm) {
			return reasonf("%s has no plan for %v here: %s", w.Algorithm, kind, w.Why)
		}
	}
	return reasonf("%s has no plan for %v here; there are %s",
		strings.Join(requested, ", "), kind, strings.Join(namesOf(set.list, (*Candidate).Name), ", "))
}

// LargeTrees returns the trees over all ranks on which large sparse messages travel, with
// their shares, which add up to 1: those of the largest AllReduce, or where that runs without
// trees one from every rank, of at most 16. A star's leaves are no further apart than they
// must be, and blocks that travel alone meet as late as they can.
func (p *Planner) LargeTrees() (trees []topo.Tree, shares []float64, err error) {
	n := p.Site.graph.Ranks
	if n == 1 {
		return nil, nil, nil
	}
	s, err := p.PlanFor(plan.AllReduce, -1, maxPriced)
	if err != nil {
		return nil, nil, err
	}
	for i := range s.Candidate.Channels {
		if c := &s.Candidate.Channels[i]; c.Ring == nil && s.Shares[i] > 0 {
			trees, shares = append(trees, c.Tree), append(shares, s.Shares[i])
		}
	}
	if len(trees) > 0 {
		return trees, normal(shares, len(trees)), nil
	}
	var f *TreeSet
	if n > directRanks || p.Site.disconnected != nil {
		if f, err = p.finder.found.overSite("multi", p.Site, multiTrees); err != nil {
			return nil, nil, err
		}
	}
	count := min(n, directRanks)
	for i := range count {
		t := topo.Star(n, i*n/count)
		if f != nil {
			t = f.Trees[i*n/count]
		}
		trees, shares = append(trees, t), append(shares, 1)
	}
	return trees, normal(shares, len(trees)), nil
}
