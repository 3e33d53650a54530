package figures

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// Hosts of today: eight GPUs that reach each other at the same rate, and a card
// for each of them.
const (
	manyHosts   = 1024
	gpusPerHost = 8
	switchGBs   = 450 // of one GPU, to all others of its host together
	cardGBs     = 50  // of one GPU, to other hosts
)

// AllReduceOverHosts returns the time of an AllReduce on 1,024 hosts of eight GPUs
// by the plans that treerun takes for many hosts and by rings, over the size.
func AllReduceOverHosts() (Figure, error) {
	f := Figure{
		Name: "many-hosts", Title: fmt.Sprintf("AllReduce on %s hosts of %d GPUs", Grouped(manyHosts), gpusPerHost),
		XLabel: "bytes", XUnit: "bytes", YLabel: "time (us)",
		Series: []Series{{Name: "trees between hosts"}, {Name: "rings"}},
		Notes: []string{
			"Plans are those of treerun for many hosts: up to 4 KiB the leaders of the hosts by doubling, above a double binary tree for every GPU of a host, each with an eighth of the message, and stars inside hosts.",
			"There are eight rings, one for every card of a host. Both are priced with the constants of NCCL's cost model, each with the better of the protocols LL and Simple.",
			fmt.Sprintf("A GPU has %d GB/s to the others of its host and a card of %d GB/s. The eight trees, and rings, are alike, so that one is priced with an eighth of the rate inside the host.", switchGBs, cardGBs),
		},
	}
	h, g := manyGPUs()
	x, err := sim.NewPricer(g)
	if err != nil {
		return Figure{}, err
	}
	small, err := plan.Leaders(plan.AllReduce, h.Hosts, plan.Doubling)
	if err != nil {
		return Figure{}, err
	}
	large, err := plan.Hierarchical(plan.AllReduce, g, h, -1, plan.Options{Form: plan.Split})
	if err != nil {
		return Figure{}, err
	}
	ring := make([]int, g.Ranks)
	for r := range ring {
		ring[r] = r
	}
	for bytes := int64(8); bytes <= 1<<30; bytes *= 8 {
		p, part := large, max(bytes/gpusPerHost, 1)
		if bytes <= 4<<10 {
			p, part = small, bytes
		}
		trees, rings := math.Inf(1), math.Inf(1)
		for _, protocol := range []sim.Protocol{sim.LL, sim.Simple} {
			if protocol == sim.LL && bytes > 1<<20 {
				continue // it has a quarter of the rate
			}
			us, err := x.Us([]sim.Operation{{Plan: p, Bytes: part}}, sim.NCCLTree(protocol), sim.Limits{Steps: 1e5, Chunks: 16})
			if err != nil {
				return Figure{}, err
			}
			r, err := sim.PriceRing(plan.AllReduce, ring, g, max(bytes/gpusPerHost, 1), sim.NCCLRing(protocol, manyHosts, gpusPerHost))
			if err != nil {
				return Figure{}, err
			}
			trees, rings = min(trees, us), min(rings, r.Us)
		}
		f.Series[0].Points = append(f.Series[0].Points, Point{float64(bytes), trees})
		f.Series[1].Points = append(f.Series[1].Points, Point{float64(bytes), rings})
	}
	f.Crossings = crossings(f.Series)
	first, last := f.ratio(0), f.ratio(len(f.Series[0].Points)-1)
	f.Claims = []Claim{{
		Text:  "treerun: on 1,024 hosts of 8 GPUs trees are far ahead of rings for small messages, and nowhere far behind.",
		Holds: first > 100 && last > 0.8,
		Found: fmt.Sprintf("The rings take %.3g times as long for 8 bytes and %.2g times for 1 GiB.", first, last),
	}}
	return f, nil
}

// ratio is how many times as long the second curve takes at a point.
func (f *Figure) ratio(k int) float64 { return f.Series[1].Points[k].Y / f.Series[0].Points[k].Y }

// manyGPUs returns the hosts with one tree of each kind, and the links that it
// and a ring use.
func manyGPUs() (*plan.Hierarchy, *topo.Graph) {
	star := topo.Tree{Parent: make([]int, gpusPerHost)}
	star.Parent[0] = -1
	two := tree.DoubleBinary(manyHosts, tree.Current)
	h := &plan.Hierarchy{Between: two[:]}
	g := &topo.Graph{Name: "many hosts", Ranks: manyHosts * gpusPerHost}
	for host := range manyHosts {
		var ranks []int
		for i := range gpusPerHost {
			r := host*gpusPerHost + i
			ranks, g.Hosts = append(ranks, r), append(g.Hosts, host)
			for k := range i {
				if k == 0 || k == i-1 {
					g.Links = append(g.Links, topo.Link{A: r - i + k, B: r, GBytesPerSecond: switchGBs / gpusPerHost, Kind: sim.NVLink})
				}
			}
		}
		h.Hosts, h.Local = append(h.Hosts, ranks), append(h.Local, []topo.Tree{star})
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("card %d", host), Ranks: ranks, GBytesPerSecond: cardGBs})
	}
	seen := make(map[[2]int]bool)
	join := func(a, b int) {
		if key := [2]int{min(a, b), max(a, b)}; !seen[key] {
			seen[key] = true
			g.Links = append(g.Links, topo.Link{A: key[0], B: key[1], GBytesPerSecond: cardGBs, Kind: sim.Net})
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
	return h, g
}

// What a rank does while a communicator of several hosts starts: so many times
// all ranks exchange something, each in ceil(log2 ranks) messages, and with every
// rank of another host that it has links to it exchanges a handshake, of which two
// messages are its own.
const (
	startExchanges = 8
	handshake      = 2
)

// StartMessages returns the number of messages that the busiest rank sends while
// a communicator starts on 2 to 1,024 hosts of eight GPUs, and what it would be if
// every rank had a connection to every other.
func StartMessages() (Figure, error) {
	f := Figure{
		Name: "start-messages", Title: "Messages that a rank sends while a communicator starts",
		XLabel: "GPUs", XUnit: "GPUs", YLabel: "messages",
		Series: []Series{{Name: "links of trees only"}, {Name: "everybody connected"}},
		Notes: []string{
			"A rank connects to those on other hosts that its plans have links to: in two double binary trees, by doubling, and in binomial trees from every host for small broadcasts. The leader of a host, which is counted, has all of these.",
			fmt.Sprintf("All ranks exchange something %d times, in ceil(log2 GPUs) messages each; a connection takes %d more from each end.", startExchanges, handshake),
		},
	}
	for hosts := 2; hosts <= manyHosts; hosts *= 2 {
		most := 0
		for _, near := range peers(hosts) {
			most = max(most, len(near))
		}
		n := hosts * gpusPerHost
		rounds := startExchanges * bits.Len(uint(n-1))
		f.Series[0].Points = append(f.Series[0].Points, Point{float64(n), float64(rounds + handshake*most)})
		f.Series[1].Points = append(f.Series[1].Points, Point{float64(n), float64(rounds + handshake*(n-gpusPerHost))})
	}
	f.Crossings = crossings(f.Series)
	p := f.Series[0].Points
	last := len(p) - 1
	steps := 0.0 // the most that twice the hosts cost
	for i := 1; i <= last; i++ {
		steps = max(steps, p[i].Y-p[i-1].Y)
	}
	f.Claims = []Claim{{
		Text:  "treerun: what a rank sends while a job starts grows with the logarithm of the number of ranks.",
		Holds: steps <= startExchanges+8*handshake && p[last].Y < 200,
		Found: fmt.Sprintf("Twice the hosts cost at most %.3g messages more; %s ranks send at most %.3g each.", steps, Grouped(p[last].X), p[last].Y),
	}}
	return f, nil
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
	for _, t := range tree.DoubleBinary(hosts, tree.Current) {
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
