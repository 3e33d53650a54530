package planner

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// The largest product of ranks and links for which trees are packed over single ranks without a request, and elsewhere
// than on devices the largest number of links per rank for which they are packed from every root, or for every part.
const (
	packedWork  = 36 << 10 // 4 hosts of 16 GPUs, all linked, with 8 rails
	rootedLinks = 4
)

// lowTolerance is the part of the rate that lower trees may cost.
const lowTolerance = 0.03

// packing is spanning trees whose rates fill the links, with the shares that follow: by a linear program, within the
// limits on number, height and rate of the options. On devices, where a chunk takes some time on each level of a tree,
// there are also the lowest trees that reach nearly the same rate.
func packing(q *query) ([]*Candidate, error) {
	s, n, links := q.site, q.site.graph.Ranks, q.site.links()
	rooted := q.kind.HasRoot() || q.kind.HasParts()
	device := s.machine.Device
	switch {
	case s.hosts.alone() && !q.ordered():
		return nil, reasonf("every host has one rank: its trees are those between hosts")
	case n > pack.MaxRanks:
		return nil, reasonf("up to %d ranks: hierarchical packs trees inside and between hosts", pack.MaxRanks)
	case q.kind == plan.Barrier:
		return nil, reasonf("a barrier carries no data")
	case q.requests(q.algorithm):
	case n*links > packedWork || rooted && n > pack.MaxPartRanks ||
		rooted && !device && (n > directRanks || links > rootedLinks*n):
		return nil, reasonf("not tried on %d ranks with %d links for the work that it takes: "+
			"--algorithm packing does", n, links)
	}
	from, key := packRoot(q.kind, q.root), "packing"
	var order []int // in which the trees of another root are those of this one
	switch {
	case q.kind.HasParts() && (s.options.limited() || n == 1 || n > pack.MaxPartRanks):
		from = pack.BothWays
	case q.kind.HasParts():
		key = "packing of parts"
	case q.kind.HasRoot():
		if s.hosts != nil {
			from, order = s.hosts.standIn(s.graph, q.root)
		}
		key = fmt.Sprintf("packing from %d", from)
	}
	list, err := q.packedTrees(key, from, order, s.options.pack())
	if err != nil || !device || s.options.limited() || n < 3 {
		return list, err
	}
	more, err := q.packedTrees(key+", low", from, order, pack.Options{HeightTolerance: lowTolerance})
	if err != nil {
		return nil, err
	}
	low := more[len(more)-1]
	low.Variant = variantLow
	return append(list, low), nil
}

// packedTrees makes the candidates over the trees of a packing, with other numbers for the ranks unless order is nil.
func (q *query) packedTrees(key string, from int, order []int, o pack.Options) ([]*Candidate, error) {
	f, err := q.packed(key, q.site.full(), from, o)
	if err != nil {
		return nil, err
	}
	if order != nil {
		f = &TreeSet{Trees: slices.Clone(f.Trees), Rates: f.Rates, Note: f.Note}
		for i, t := range f.Trees {
			f.Trees[i] = t.Renamed(order)
		}
	}
	if from == pack.EveryRoot { // whose search always ends so
		f = &TreeSet{Trees: f.Trees, Rates: f.Rates}
	}
	return q.overTrees(f, from == pack.EveryRoot)
}

// packed returns the trees of a packing of g.
func (q *query) packed(key string, g *topo.Graph, root int, o pack.Options) (*TreeSet, error) {
	return q.found.get(key, g.Ranks, func() (*TreeSet, error) {
		r, err := pack.Pack(g, root, o)
		if err != nil {
			return nil, err
		}
		f := &TreeSet{Trees: r.Trees, Rates: r.Rates, Note: r.Note}
		if f.Note == "" && o.HeightTolerance == 0 && !q.site.options.limited() && r.Ratio < 0.99 {
			f.Note = fmt.Sprintf("the search for trees ended after its budget of steps, with %s and %.1f %% of the bound",
				numbers.Count(len(r.Trees), "tree"), 100*r.Ratio)
		}
		return f, nil
	})
}

// packedInTurn gives every root one of the packed trees, which take turns.
func packedInTurn(s *Site, g *topo.Graph) (list []topo.Tree, err error) {
	r, err := pack.Pack(g, pack.BothWays, pack.Options{Seed: s.options.Seed, MaxTrees: max(g.Ranks, 1)})
	if err != nil {
		return nil, err
	}
	for root := range g.Ranks {
		list = append(list, r.Trees[root%len(r.Trees)].Reroot(root))
	}
	return list, nil
}

// packRoot is the root for which trees of a collective are packed.
func packRoot(kind plan.Kind, root int) int {
	switch {
	case kind.HasParts():
		return pack.EveryRoot
	case kind.HasRoot():
		return max(root, 0)
	}
	return pack.BothWays
}
