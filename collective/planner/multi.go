package planner

import (
	"cmp"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// PairRanks is the largest number of ranks with links between all pairs, and directRanks the largest for which those
// are worth their memory for each rank that owns a slice.
const (
	PairRanks   = 128
	directRanks = 16
)

// multi is one balanced tree per root, for messages cut into as many equal parts: made
// jointly up to jointRanks, one after the other above. Small messages take one of them.
func (p *Planner) multi(kind plan.Kind, root int) ([]*Candidate, error) {
	if p.Site.graph.Ranks > jointRanks && !p.Site.uniform && !p.asked("multi") {
		return nil, reasonf("not tried above %d ranks for the work that it takes: --algorithm multi does",
			jointRanks)
	}
	return p.ofRoots("multi", kind, root)
}

// complete reports whether a graph has links between all ranks.
func complete(g *topo.Graph) bool { return len(g.Links) == g.Ranks*(g.Ranks-1)/2 }

// perRoot returns the trees of an algorithm for every root.
func (p *Planner) perRoot(algorithm string) (*TreeSet, error) {
	f, err := p.treeSet(algorithm, p.Site.graph.Ranks, func() (*TreeSet, error) {
		trees, err := p.inside(algorithm, p.Site.graph)
		return &TreeSet{Trees: trees, Note: tree.Cut(p.Site.graph)}, err
	})
	return f, cmp.Or(err, f.ofRoots())
}

// ofRoots makes the candidates of one tree per root.
func (p *Planner) ofRoots(algorithm string, kind plan.Kind, root int) ([]*Candidate, error) {
	c := Candidate{Algorithm: algorithm, Kind: kind, Root: root}
	if p.Site.uniform && algorithm == "multi" { // the trees of one root, shifted by the others
		c.shifts = !kind.HasRoot() && kind != plan.Barrier // which carries nothing: one is as good
		c.Channels = []Channel{{Tree: tree.Uniform(p.Site.graph.Ranks, max(root, 0)), OfPart: kind.HasParts()}}
		for r := 1; r < p.Site.graph.Ranks && c.shifts; r++ {
			c.Channels = append(c.Channels, Channel{Tree: topo.Tree{Root: r}, OfPart: kind.HasParts()})
		}
		return p.ofChannels(c, nil)
	}
	f, err := p.perRoot(algorithm)
	if err != nil {
		return nil, err
	}
	if kind.HasRoot() && p.Site.uniform {
		f = &TreeSet{Trees: f.Trees[root : root+1], Note: f.Note}
	}
	return p.overTrees(c, f, kind.HasParts())
}

// pairwise reports whether a kind moves every part from one rank to another, so that no
// tree helps.
func pairwise(kind plan.Kind) bool {
	return kind == plan.Gather || kind == plan.Scatter || kind == plan.AllToAll
}
