package tree

import "github.com/treerun/treerun/topo"

// shallowest returns a spanning tree in which every rank is as near to the
// root as the graph allows, over the fastest such link, to the lowest rank
// among equals; and the number of links between every rank and the root. g
// must be connected.
func shallowest(g *net, root int) (t topo.Tree, depth []int) {
	t = topo.Tree{Root: root, Parent: make([]int, g.n)}
	depth = make([]int, g.n)
	for v := range depth {
		depth[v] = -1
		t.Parent[v] = -1
	}
	depth[root] = 0
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		u := queue[0]
		for _, e := range g.near[u] {
			v := e.Rank
			switch {
			case depth[v] < 0:
				depth[v] = depth[u] + 1
				t.Parent[v] = u
				queue = append(queue, v)
			case depth[v] == depth[u]+1:
				old := g.at(v, t.Parent[v])
				if w := g.at(v, u); w > old || w == old && u < t.Parent[v] {
					t.Parent[v] = u
				}
			}
		}
	}
	return t, depth
}
