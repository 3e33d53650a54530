package planner

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/pack"
)

// Up to how many ranks trees are packed over single ranks without being asked for, and
// up to how many one way, for every root.
//
// maxTrees is at most how many trees are then used at a time on more than rootedRanks:
// every tree takes links, and a share of the memory of their slots.
const (
	maxTrees    = 24
	manyTrees   = 64 // of one root
	packedRanks = 16
	rootedRanks = 9
)

// packing is spanning trees whose rates fill the links, with the shares that follow:
// by a linear program, within the limits on number, height and rate of the options.
func (p *Planner) packing(kind plan.Kind, root int) ([]*Candidate, error) {
	if err := p.searched("packing", kind, packedRanks); err != nil {
		return nil, err
	}
	if p.hosts.alone() && !p.ordered(kind) {
		return nil, because("every host has one rank: its trees are those between hosts")
	}
	n, free := p.graph.Ranks, !p.options.limited()
	c := Candidate{Algorithm: "packing", Kind: kind, Root: root}
	var f *Forest
	var err error
	switch {
	case n > pack.MaxRanks:
		return nil, because("up to %d ranks: hierarchical packs trees inside and between hosts", pack.MaxRanks)
	case kind == plan.Barrier:
		return nil, because("a barrier carries no data")
	case kind.HasParts() && free && n > 1 && n <= pack.MaxPartRanks && (p.asked("packing") || n <= rootedRanks):
		if f, err = p.packed("packing of parts", n, func() (*pack.Result, error) { return pack.PackParts(p.graph) }); err != nil {
			return nil, err
		}
		for _, t := range f.Trees {
			c.Strands = append(c.Strands, Strand{Tree: t, OfPart: true})
		}
		c.proved = p.proved[f.Key]
		return p.stranded(c, f.Rates)
	case kind.HasRoot():
		from := func(root int) (*Forest, error) {
			return p.packed(fmt.Sprintf("packing from %d", root), n, func() (*pack.Result, error) {
				return pack.PackOneWay(p.graph, root, p.options.pack())
			})
		}
		if n > rootedRanks && !p.asked("packing") {
			if f, err = from(0); err == nil && len(f.Trees) > manyTrees {
				return nil, because("its %d trees from rank 0 are too many to be used, or found for every root: --algorithm packing does", len(f.Trees))
			}
		}
		f, err = from(root)
	default:
		o := p.options.pack()
		if n > rootedRanks && !p.asked("packing") {
			o.MaxTrees, o.Greedy = maxTrees, true
		}
		f, err = p.packed("packing", n, func() (*pack.Result, error) { return pack.Pack(p.graph, o) })
	}
	if err != nil {
		return nil, err
	}
	if b := p.proved[f.Key]; n > 1 && !kind.HasParts() && b != nil && (b.Root >= 0 || !kind.HasRoot()) {
		c.proved = b
	}
	c.Strands, c.Notes = f.strands(kind, root)
	if f.Note != "" {
		c.Notes = append(c.Notes, f.Note)
	}
	rates := f.Rates
	if n > rootedRanks && !p.asked("packing") {
		c.Strands, rates = strongest(c.Strands, rates, maxTrees)
	}
	return p.stranded(c, rates)
}

// packed returns the trees of a packing of n vertices.
func (p *Planner) packed(key string, n int, search func() (*pack.Result, error)) (*Forest, error) {
	return p.forest(key, n, func() (*Forest, error) {
		r, err := search()
		if err != nil {
			return nil, err
		}
		p.proved[key] = &r.Bound
		f := &Forest{Trees: r.Trees, Rates: r.Rates, Note: r.Note}
		if f.Note == "" && !p.options.limited() && r.Ratio < 0.99 {
			f.Note = fmt.Sprintf("the search for trees ended after its budget of steps, with %d trees and %.1f %% of the bound",
				len(r.Trees), 100*r.Ratio)
		}
		return f, nil
	})
}
