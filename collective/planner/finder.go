package planner

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
)

// finder has the algorithms make the candidates for collectives on a site, and keeps them.
type finder struct {
	site   *Site
	prices *Prices
	found  treeSets
	known  map[collective]*candidateSet

	earlier *Earlier // choices that are taken over; nil: none
}

// collective is a kind and a root.
type collective struct {
	kind plan.Kind
	root int
}

// candidateSet is the candidates for a collective, and the algorithms that have none.
type candidateSet struct {
	list    []*Candidate
	without []Considered
}

// candidates returns the candidates for a kind and root: those of the algorithm that is requested, or all. Where
// that one has no plan for the kind, all are: it holds for the collectives that it offers.
func (f *finder) candidates(kind plan.Kind, root int) (*candidateSet, error) {
	c := collective{kind, root}
	if set, ok := f.known[c]; ok {
		return set, nil
	}
	set, err := f.search(kind, root, false)
	if err == nil {
		f.known[c] = set
	}
	return set, err
}

// search makes the candidates for a kind and root, or only their trees.
func (f *finder) search(kind plan.Kind, root int, treesOnly bool) (*candidateSet, error) {
	set := &candidateSet{}
	q := query{site: f.site, prices: f.prices, found: &f.found, kind: kind, root: root, treesOnly: treesOnly}
	if !kind.HasRoot() {
		q.root = -1
	}
	if f.site.requested != nil {
		set.add(q)
	}
	if len(set.list) == 0 {
		q.ignoreRequest = true
		set.add(q)
	}
	if len(set.list) == 0 {
		return nil, fmt.Errorf("no algorithm has a plan for %v on %d ranks: %s", kind, f.site.graph.Ranks,
			joinReasons(set.without))
	}
	return set, nil
}

// add adds the candidates of all algorithms for a query, or of those that it requests.
func (set *candidateSet) add(q query) {
	for _, a := range algorithms {
		q := q
		q.algorithm = a.name
		if !q.ignoreRequest && !q.requests(a.name) {
			continue
		}
		list, err := a.candidatesOf(&q)
		known := slices.ContainsFunc(set.without, func(c Considered) bool { return c.Algorithm == a.name })
		if err != nil && !known {
			set.without = append(set.without, Considered{Algorithm: a.name, Why: err.Error()})
		}
		for _, c := range list {
			if (q.ignoreRequest || q.site.wants(c)) && !slices.ContainsFunc(set.list, c.like) {
				set.list = append(set.list, c)
			}
		}
	}
}

// named returns the candidate with a name; nil where there is none.
func (set *candidateSet) named(name string) *Candidate {
	for _, c := range set.list {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// searchTrees finds the trees of all kinds, and of all roots whose trees differ.
func (f *finder) searchTrees() error {
	for kind := plan.AllReduce; kind <= plan.AllToAll; kind++ {
		for _, root := range f.site.rootsOf(kind) {
			_, err := f.search(kind, root, true)
			if err != nil && !f.site.ordered(kind) { // else calls return the error, if there are any
				return err
			}
		}
	}
	return nil
}

// same reports whether two choices have the same plan and chunks.
func (set *candidateSet) same(a, b *DecidedChoice) bool {
	if a.Algorithm != b.Algorithm || a.Chunks != b.Chunks {
		return false
	}
	c := set.named(a.Algorithm)
	x, err := c.build(a.Bytes)
	y, failed := c.build(b.Bytes)
	return err == nil && failed == nil && x.Plan == y.Plan
}
