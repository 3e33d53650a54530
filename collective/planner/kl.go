package planner

import (
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// klTrees makes one tree per root, as MXNet does: each use of a link makes it less attractive to later trees.
func klTrees(s *Site, g *topo.Graph) ([]topo.Tree, error) {
	return tree.KL(g, s.options.penalty(), s.options.Seed), nil
}
