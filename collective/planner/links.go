package planner

import (
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Runs reports why there is no plan for a kind, with any options. There is one for kinds without parts.
func (s *Site) Runs(kind plan.Kind) error {
	// Of trees for every part the links between hosts would be too many.
	if s.HasPairs() || !kind.HasParts() || !pairwise(kind) && s.hosts == nil {
		return nil
	}
	return reasonf("it is for up to %d ranks, not for %d", PairRanks, s.graph.Ranks)
}

// HasPairs reports whether there are links between all pairs of ranks.
func (s *Site) HasPairs() bool { return s.graph.Ranks <= PairRanks }

// search finds the trees of all kinds, and of all roots whose trees differ.
func (p *Planner) search() error {
	p.bare = true
	defer func() { p.bare = false }()
	for kind := plan.AllReduce; kind <= plan.AllToAll; kind++ {
		for _, root := range p.Site.rootsOf(kind) {
			_, err := p.candidatesFor(kind, root)
			if err != nil && !p.Site.ordered(kind) { // else calls return the error, if there are any
				return err
			}
		}
	}
	return nil
}

// rootsOf returns roots of a kind such that the plans of any other root take the same
// links: of many ranks on several hosts one of each, as the trees of the others are those
// turned round; on one host one, whose trees are those of kinds without a root.
func (s *Site) rootsOf(kind plan.Kind) (roots []int) {
	free := s.options.Suits() == nil && !s.ordered(kind)
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

// AllPlans returns the plans of a kind for all sizes and roots, in an order that is the
// same on all ranks.
func (p *Planner) AllPlans(kind plan.Kind) ([]*ChosenPlan, error) {
	t, err := p.table(kind)
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
	for _, e := range t {
		for root := range roots {
			s, err := p.planOf(kind, root, e)
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

// Range is the algorithm that runs a kind from a size on.
type Range struct {
	From      int64 // bytes
	Algorithm string
	Chunks    plan.Chunks
}

// Table returns the plans that run a kind, by rising size.
func (p *Planner) Table(kind plan.Kind) ([]Range, error) {
	t, err := p.table(kind)
	var list []Range
	for _, e := range t {
		list = append(list, Range{e.from, e.Algorithm, e.Chunks})
	}
	same := func(a, b Range) bool { return a.Algorithm == b.Algorithm && a.Chunks == b.Chunks }
	return slices.CompactFunc(list, same), err
}

// CandidateNames returns the names of the candidates for a kind.
func (p *Planner) CandidateNames(kind plan.Kind) []string {
	o, err := p.candidatesFor(kind, 0)
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range o.list {
		names = append(names, c.Name())
	}
	return names
}

// Supports reports why the algorithm that the options request has no plan for a kind and root, so that others are
// taken; nil where it has, or none is requested.
func (p *Planner) Supports(kind plan.Kind, root int) error {
	if err := p.Site.Runs(kind); err != nil {
		return err
	}
	o, err := p.candidatesFor(kind, max(root, 0))
	if err != nil {
		return err
	}
	suits := p.Site.options.Suits()
	if g := p.Site.options.Given; suits == nil || g.serves(kind, max(root, 0)) {
		return nil
	}
	for _, c := range o.list {
		if slices.ContainsFunc(suits, c.Matches) {
			return nil
		}
	}
	for _, w := range o.without {
		mine := func(name string) bool { return name == w.Algorithm || strings.HasPrefix(name, w.Algorithm+":") }
		if slices.ContainsFunc(suits, mine) {
			return reasonf("%s has no plan for %v here: %s", w.Algorithm, kind, w.Why)
		}
	}
	return reasonf("%s has no plan for %v here; there are %s",
		strings.Join(suits, ", "), kind, strings.Join(p.CandidateNames(kind), ", "))
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
		if f, err = p.perRoot("multi"); err != nil {
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

// normal returns n weights with sum 1; nil ones are equal.
func normal(weights []float64, n int) []float64 {
	if weights == nil {
		return slices.Repeat([]float64{1 / float64(n)}, n)
	}
	total, shares := numbers.Sum(weights), make([]float64, n)
	for i, w := range weights {
		shares[i] = w / total
	}
	return shares
}
