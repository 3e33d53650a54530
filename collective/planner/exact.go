package planner

import (
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// exact makes for every root the balanced tree with the largest sum of rates.
func exact(_ *Site, g *topo.Graph) ([]topo.Tree, error) { return tree.Exact(g) }
