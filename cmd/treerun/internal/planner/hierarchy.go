package planner

import (
	"fmt"
	"slices"

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
		trees, err := localTrees(inside(r.g, ranks))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("inside host %d: %w", i, err)
		}
		h.Local = append(h.Local, trees)
	}
	between := betweenHosts(r.g, h.Hosts)
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
	return tree.Cut(inside(g, ranks), false)
}

// inside returns the part of g between the given ranks, which get the numbers
// of their places.
func inside(g *topo.Graph, ranks []int) *topo.Graph {
	place := make(map[int]int, len(ranks))
	for i, r := range ranks {
		place[r] = i
	}
	part := &topo.Graph{Ranks: len(ranks)}
	for _, l := range g.Links {
		a, okA := place[l.A]
		b, okB := place[l.B]
		if okA && okB {
			l.A, l.B = a, b
			part.Links = append(part.Links, l)
		}
	}
	for _, p := range g.Ports {
		var within []int
		for _, r := range p.Ranks {
			if i, ok := place[r]; ok {
				within = append(within, i)
			}
		}
		if len(within) > 0 && len(within) < len(ranks) {
			p.Ranks = within
			part.Ports = append(part.Ports, p)
		}
	}
	return part
}

// betweenHosts returns the graph whose ranks are the hosts: a link has the rate
// of all links between its hosts and the latency of the quickest of them, and
// ports of whole hosts stay.
func betweenHosts(g *topo.Graph, hosts [][]int) *topo.Graph {
	host := make([]int, g.Ranks)
	for h, ranks := range hosts {
		for _, r := range ranks {
			host[r] = h
		}
	}
	between := &topo.Graph{Ranks: len(hosts)}
	index := make(map[[2]int]int)
	for _, l := range g.Links {
		a, b := min(host[l.A], host[l.B]), max(host[l.A], host[l.B])
		if a == b {
			continue
		}
		i, ok := index[[2]int{a, b}]
		if !ok {
			i = len(between.Links)
			index[[2]int{a, b}] = i
			between.Links = append(between.Links, topo.Link{A: a, B: b, LatencyUs: l.LatencyUs, Kind: l.Kind})
		}
		k := &between.Links[i]
		k.GBytesPerSecond += l.GBytesPerSecond
		k.LatencyUs = min(k.LatencyUs, l.LatencyUs)
	}
	for _, p := range g.Ports {
		if ranks, whole := hostsOf(p.Ranks, host, hosts); whole && len(ranks) < len(hosts) {
			p.Ranks = ranks
			between.Ports = append(between.Ports, p)
		}
	}
	return between
}

// hostsOf returns the hosts of ranks, and whether ranks has all of each.
func hostsOf(ranks, host []int, hosts [][]int) (list []int, whole bool) {
	count := make(map[int]int)
	for _, r := range ranks {
		count[host[r]]++
	}
	whole = true
	for h, n := range count {
		list = append(list, h)
		whole = whole && n == len(hosts[h])
	}
	slices.Sort(list)
	return list, whole
}
