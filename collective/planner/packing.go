package planner

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// The largest product of ranks and links for which trees are packed over single ranks without a request, and the
// largest number of links per rank, one way, for which they are packed from every root, or for every part.
const (
	packedWork  = 1 << 12
	rootedLinks = 4
)

// packing is spanning trees whose rates fill the links, with the shares that follow:
// by a linear program, within the limits on number, height and rate of the options.
func (p *Planner) packing(kind plan.Kind, root int) ([]*Candidate, error) {
	n, links := p.Site.graph.Ranks, len(p.Site.graph.Links)
	ofRoots := kind.HasRoot() || kind.HasParts()
	switch {
	case p.Site.hosts.alone() && !p.Site.ordered(kind):
		return nil, reasonf("every host has one rank: its trees are those between hosts")
	case n > pack.MaxRanks:
		return nil, reasonf("up to %d ranks: hierarchical packs trees inside and between hosts", pack.MaxRanks)
	case kind == plan.Barrier:
		return nil, reasonf("a barrier carries no data")
	case p.asked("packing"):
	case n*links > packedWork || ofRoots && (n > directRanks || links > rootedLinks*n):
		return nil, reasonf("not tried on %d ranks with %d links for the work that it takes: "+
			"--algorithm packing does", n, links)
	}
	from, key := packRoot(kind, root), "packing"
	switch {
	case kind.HasParts() && (p.Site.options.limited() || n == 1 || n > pack.MaxPartRanks):
		from = pack.BothWays
	case kind.HasParts():
		key = "packing of parts"
	case kind.HasRoot():
		key = fmt.Sprintf("packing from %d", root)
	}
	f, err := p.packed(key, p.Site.graph, from, p.Site.options.pack())
	if err != nil {
		return nil, err
	}
	if from == pack.EveryRoot { // whose search always ends so
		f = &TreeSet{Trees: f.Trees, Rates: f.Rates}
	}
	return p.overTrees(Candidate{Algorithm: "packing", Kind: kind, Root: root}, f, from == pack.EveryRoot)
}

// packed returns the trees of a packing of g.
func (p *Planner) packed(key string, g *topo.Graph, root int, o pack.Options) (*TreeSet, error) {
	return p.treeSet(key, g.Ranks, func() (*TreeSet, error) {
		r, err := pack.Pack(g, root, o)
		if err != nil {
			return nil, err
		}
		f := &TreeSet{Trees: r.Trees, Rates: r.Rates, Note: r.Note}
		if f.Note == "" && !p.Site.options.limited() && r.Ratio < 0.99 {
			f.Note = fmt.Sprintf("the search for trees ended after its budget of steps, with %s and %.1f %% of the bound",
				numbers.Count(len(r.Trees), "tree"), 100*r.Ratio)
		}
		return f, nil
	})
}
