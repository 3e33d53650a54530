package sim

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// treeAgainstRing prices an AllReduce of 8 bytes by NCCL's double binary trees and by its
// ring, for 2 to 24,576 GPUs, six to a host as on Summit.
func treeAgainstRing(t *testing.T) string {
	const perHost = 6
	var b strings.Builder
	b.WriteString("GPUs\tdouble binary trees\tring\n")
	sizes := [][2]int{{1, 2}, {1, 3}}
	for hosts := 1; hosts <= 4096; hosts *= 2 {
		sizes = append(sizes, [2]int{hosts, perHost})
	}
	for _, s := range sizes {
		g, trees := cluster(t, s[0], s[1])
		us := price(t, mustTrees(t, plan.AllReduce, plan.Single, trees...), g, 8, NCCLTree(LL)).Us
		fmt.Fprintf(&b, "%d\t%.6g\t%.6g\n", g.Ranks, us, ringUs(t, g, 8, NCCLRing(LL, s[0], s[1])))
	}
	return b.String()
}

// Hosts of today: eight GPUs that reach each other at the same rate, and a card
// for each of them.
const (
	manyHosts   = 1024
	gpusPerHost = 8
	switchGBs   = 450 // of one GPU, to all others of its host together
	cardGBs     = 50  // of one GPU, to other hosts
)

// allReduceOverHosts prices an AllReduce on 1,024 hosts of eight GPUs: up to 4 KiB by doubling between the hosts'
// leaders, above by a double binary tree for every GPU of a host; and by eight rings, one for every card of a host. The
// eight are equal, so that one is priced with an eighth of the message and of the rate inside the host.
func allReduceOverHosts(t *testing.T) string {
	g := manyGPUs()
	small, err := plan.Leaders(plan.AllReduce, g.ByHost(), plan.Doubling)
	if err != nil {
		t.Fatal(err)
	}
	large := mustTrees(t, plan.AllReduce, plan.Split,
		overHosts(tree.DoubleBinary(manyHosts), topo.Star(gpusPerHost, 0))...)
	var b strings.Builder
	b.WriteString("bytes\ttrees between hosts\trings\n")
	for bytes := int64(8); bytes <= 1<<30; bytes *= 8 {
		p, part := large, max(bytes/gpusPerHost, 1)
		if bytes <= 4<<10 {
			p, part = small, bytes
		}
		trees, rings := math.Inf(1), math.Inf(1)
		for _, protocol := range []Protocol{LL, Simple} {
			if protocol == LL && bytes > 1<<20 {
				continue // it has a quarter of the rate
			}
			m := NCCLTree(protocol)
			x := NewPricer(m.graph(g), topo.NewWays(g), m.Machine)
			us, err := x.Us(p, part, 1, plan.Chunks{}, Limits{Steps: 1e5, Chunks: 16})
			if err != nil {
				t.Fatal(err)
			}
			ring := ringUs(t, g, max(bytes/gpusPerHost, 1), NCCLRing(protocol, manyHosts, gpusPerHost))
			trees, rings = min(trees, us), min(rings, ring)
		}
		fmt.Fprintf(&b, "%d\t%.6g\t%.6g\n", bytes, trees, rings)
	}
	return b.String()
}

// manyGPUs returns the hosts with the links that trees between their first ranks and a
// ring use.
func manyGPUs() *topo.Graph {
	two := tree.DoubleBinary(manyHosts)
	g := &topo.Graph{Name: "many hosts", Ranks: manyHosts * gpusPerHost}
	for host := range manyHosts {
		var ranks []int
		for i := range gpusPerHost {
			r := host*gpusPerHost + i
			ranks, g.Hosts = append(ranks, r), append(g.Hosts, host)
			for k := range i {
				if k == 0 || k == i-1 {
					g.Links = append(g.Links, topo.Link{A: r - i + k, B: r,
						GBytesPerSecond: switchGBs / gpusPerHost, Kind: NVLink})
				}
			}
		}
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("card %d", host), Ranks: ranks, GBytesPerSecond: cardGBs})
	}
	seen := make(map[[2]int]bool)
	join := func(a, b int) {
		if key := [2]int{min(a, b), max(a, b)}; !seen[key] {
			seen[key] = true
			g.Links = append(g.Links, topo.Link{A: key[0], B: key[1], GBytesPerSecond: cardGBs, Kind: Net})
		}
	}
	for host := range manyHosts {
		join((host+1)*gpusPerHost-1, (host+1)%manyHosts*gpusPerHost) // of the ring
		for _, t := range two {
			if up := t.Parent[host]; up >= 0 {
				join(host*gpusPerHost, up*gpusPerHost)
			}
		}
		for k := 1; k < manyHosts; k *= 2 {
			join(host*gpusPerHost, (host^k)*gpusPerHost)
		}
	}
	return g
}

// The messages of a rank while a communicator of several hosts starts: startExchanges exchanges of all ranks, each in
// ceil(log2 ranks) messages, and a handshake with every rank of another host that it has links to, of which it sends
// two messages.
const (
	startExchanges = 8
	handshake      = 2
)

// startMessages counts the messages that the busiest rank sends while a communicator starts on 2 to 1,024 hosts of
// eight GPUs, and those that it would send if every rank had a connection to every other.
func startMessages(*testing.T) string {
	var b strings.Builder
	b.WriteString("GPUs\tlinks of trees only\teverybody connected\n")
	for hosts := 2; hosts <= manyHosts; hosts *= 2 {
		busiest := 0
		for _, near := range peers(hosts) {
			busiest = max(busiest, len(near))
		}
		n := hosts * gpusPerHost
		rounds := startExchanges * bits.Len(uint(n-1))
		fmt.Fprintf(&b, "%d\t%d\t%d\n", n, rounds+handshake*busiest, rounds+handshake*(n-gpusPerHost))
	}
	return b.String()
}

// peers returns, for the leader of every host, the hosts that it has links to.
func peers(hosts int) []map[int]bool {
	list := make([]map[int]bool, hosts)
	for h := range list {
		list[h] = make(map[int]bool)
	}
	join := func(a, b int) {
		if a != b {
			list[a][b], list[b][a] = true, true
		}
	}
	for _, t := range tree.DoubleBinary(hosts) {
		for v, p := range t.Parent {
			if p >= 0 {
				join(v, p)
			}
		}
	}
	for k := 1; k < hosts; k *= 2 {
		for h := range hosts {
			join(h, h^k)
			join(h, (h+k)%hosts)
		}
	}
	return list
}
