package planner

import (
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// kl is one balanced tree per root. On devices, where packed trees are as fast or faster, it is for few ranks.
func kl(q *query) ([]*Candidate, error) {
	if q.site.machine.Device && q.site.graph.Ranks > jointRanks && !q.site.hosts.alone() && !q.requests(q.algorithm) {
		return nil, tooMuchWork(q.algorithm, jointRanks)
	}
	return ofOwnRoots(klTrees)(q)
}

// klTrees makes one tree per root, as MXNet does: each use of a link makes it less attractive to later trees.
func klTrees(s *Site, g *topo.Graph) ([]topo.Tree, error) {
	return tree.KL(g, s.options.penalty(), s.options.Seed), nil
}
