package planner

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// mostPacked is the number of hosts up to which trees between hosts are packed;
// above, double binary trees join them.
const mostPacked = 32

// hierarchical joins trees inside every host by trees between hosts.
func hierarchical(r *request) ([]strand, []float64, []string, error) {
	h := &plan.Hierarchy{Hosts: plan.Hosts(r.g)}
	for i, ranks := range h.Hosts {
		trees, err := localTrees(r.g.Inside(ranks))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("inside host %d: %w", i, err)
		}
		h.Local = append(h.Local, trees)
	}
	between := r.g.BetweenHosts(h.Hosts)
	if len(h.Hosts) <= mostPacked {
		p, err := pack.Pack(between, pack.Options{MaxTrees: 4})
		if err != nil {
			return nil, nil, nil, fmt.Errorf("between hosts: %w", err)
		}
		h.Between, h.Weights = p.Trees, p.Rates
	} else {
		trees, err := tree.DoubleBinaryOn(between, tree.Current)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("between hosts: %w", err)
		}
		h.Between = trees
	}
	trees, weights, err := h.Trees(r.g)
	if err != nil {
		return nil, nil, nil, err
	}
	list, notes := r.ofTrees(trees)
	for i, ranks := range h.Hosts {
		if cut := cutInside(r.g, ranks); cut != "" {
			notes = append(notes, fmt.Sprintf("inside host %d: %s", i, cut))
		}
	}
	return list, weights, notes, nil
}

// localTrees returns a tree for every root of a host.
func localTrees(g *topo.Graph) ([]topo.Tree, error) {
	switch {
	case g.Ranks == 1:
		return []topo.Tree{{Parent: []int{-1}}}, nil
	case g.Ranks <= tree.MaxExact:
		return tree.Multi(g)
	}
	return tree.All(g)
}

// cutInside says what localTrees leaves out in a host.
func cutInside(g *topo.Graph, ranks []int) string {
	if len(ranks) <= tree.MaxExact {
		return ""
	}
	return tree.Cut(g.Inside(ranks), false)
}
