package planner

import (
	"slices"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// exact is for every root the balanced tree with the largest sum of rates. On request a collective with a root takes
// that of its root alone: those of others, rerooted, are no longer the best.
func exact(q *query) ([]*Candidate, error) {
	list, err := ofOwnRoots(exactTrees)(q)
	all := q.algorithm + ":" + variantAll
	if err == nil && list[0].own && !slices.Contains(q.site.requested, all) {
		list = slices.DeleteFunc(list, func(c *Candidate) bool { return c.Variant == variantAll })
	}
	return list, err
}

func exactTrees(_ *Site, g *topo.Graph) ([]topo.Tree, error) { return tree.Exact(g) }
