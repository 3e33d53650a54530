package figures

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// perHost is the number of GPUs of a host of Summit, where NCCL's trees were
// first shown.
const perHost = 6

// Rates of the cluster, in GB/s: NVLink between three GPUs of a Summit node,
// and one of its InfiniBand cards.
const (
	summitNVLink = 50
	summitNet    = 12.5
)

// TreeAgainstRing returns the latency of an AllReduce of 8 bytes by NCCL's
// double binary trees and by its ring, for 2 to 24,576 GPUs, six to a host.
func TreeAgainstRing() (Figure, error) {
	f := Figure{
		Name: "tree-against-ring", Title: "AllReduce of 8 bytes: trees against a ring",
		XLabel: "GPUs", XUnit: "GPUs", YLabel: "time (us)",
		Series: []Series{{Name: "double binary trees"}, {Name: "ring"}},
		Notes: []string{
			"Constants are those of NCCL's own cost model for its LL protocol (graph/tuning.cc of 2.30.7) on hosts of 6 GPUs.",
			"The original is the announcement of NCCL 2.4, which measured on Summit.",
		},
	}
	sizes := [][2]int{{1, 2}, {1, 3}}
	for hosts := 1; hosts <= 4096; hosts *= 2 {
		sizes = append(sizes, [2]int{hosts, perHost})
	}
	for _, s := range sizes {
		trees, ring, err := latencies(s[0], s[1])
		if err != nil {
			return Figure{}, err
		}
		n := float64(s[0] * s[1])
		f.Series[0].Points = append(f.Series[0].Points, Point{n, trees})
		f.Series[1].Points = append(f.Series[1].Points, Point{n, ring})
	}
	f.Crossings = crossings(f.Series)
	f.Claims = f.scaleClaims()
	return f, nil
}

// latencies prices an AllReduce of 8 bytes over hosts of so many GPUs each by
// trees and by a ring, in us.
func latencies(hosts, gpus int) (trees, ring float64, err error) {
	h := &plan.Hierarchy{}
	order := make([]int, hosts*gpus)
	chain := topo.Tree{Parent: make([]int, gpus)}
	for v := range gpus {
		chain.Parent[v] = v - 1
	}
	for r := range order {
		order[r] = r
	}
	for host := range hosts {
		h.Hosts = append(h.Hosts, order[host*gpus:(host+1)*gpus])
		h.Local = append(h.Local, []topo.Tree{chain})
	}
	two := tree.DoubleBinary(hosts, tree.Current)
	h.Between = two[:]
	g := summit(hosts, gpus, h.Between)
	p, err := plan.Hierarchical(plan.AllReduce, g, h, -1, plan.Options{})
	if err != nil {
		return 0, 0, fmt.Errorf("figures: %d hosts: %w", hosts, err)
	}
	t, err := sim.Price(p, g, 8, sim.NCCLTree(sim.LL))
	if err != nil {
		return 0, 0, fmt.Errorf("figures: %d hosts: %w", hosts, err)
	}
	r, err := sim.PriceRing(plan.AllReduce, order, g, 8, sim.NCCLRing(sim.LL, hosts, gpus))
	if err != nil {
		return 0, 0, fmt.Errorf("figures: %d hosts: %w", hosts, err)
	}
	return t.Us, r.Us, nil
}

// summit returns hosts of so many GPUs with the links that a ring in the order
// of the ranks and trees between the first GPUs of the hosts use. All links of
// 24,576 GPUs would be 300 million.
func summit(hosts, gpus int, between []topo.Tree) *topo.Graph {
	n := hosts * gpus
	g := &topo.Graph{Name: fmt.Sprintf("summit%d", n), Ranks: n, Hosts: make([]int, n)}
	seen := make(map[[2]int]bool)
	join := func(a, b int) {
		key := [2]int{min(a, b), max(a, b)}
		if a == b || seen[key] {
			return
		}
		seen[key] = true
		l := topo.Link{A: a, B: b, GBytesPerSecond: summitNet, Kind: sim.Net}
		if a/gpus == b/gpus {
			l.GBytesPerSecond, l.Kind = summitNVLink, sim.NVLink
		}
		g.Links = append(g.Links, l)
	}
	for r := range n {
		g.Hosts[r] = r / gpus
		join(r, (r+1)%n)
	}
	for _, t := range between {
		for v, p := range t.Parent {
			if p >= 0 {
				join(v*gpus, p*gpus)
			}
		}
	}
	return g
}
