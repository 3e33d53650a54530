package plan

import "github.com/treerun/treerun/topo"

// Hosts returns the ranks of every host of g, rising, hosts in the order of
// their lowest rank.
func Hosts(g *topo.Graph) [][]int {
	place := make(map[int]int)
	var hosts [][]int
	for r := range g.Ranks {
		h := 0
		if len(g.Hosts) > 0 {
			h = g.Hosts[r]
		}
		i, ok := place[h]
		if !ok {
			i = len(hosts)
			place[h] = i
			hosts = append(hosts, nil)
		}
		hosts[i] = append(hosts[i], r)
	}
	return hosts
}
