//go:build linux

package fakegpu

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/topo"
)

// someRanks separates "dgx1v/0-3" into the machine and the ranks.
var someRanks = regexp.MustCompile(`^dgx1v(?:/(\d)(?:-(\d))?)?$`)

// load returns the graph of a DGX-1V, or of some of its GPUs, as in "dgx1v/0-3".
func load(name string) (*topo.Graph, error) {
	g, _ := topo.Machine("dgx1v")
	m := someRanks.FindStringSubmatch(name)
	if m == nil {
		return nil, fmt.Errorf("%q is no fake host: want dgx1v, or some of its GPUs, as in dgx1v/0-3", name)
	}
	first, _ := strconv.Atoi(cmp.Or(m[1], "0"))
	last, _ := strconv.Atoi(cmp.Or(m[2], m[1], "7"))
	if first > last || last >= g.Ranks {
		return nil, fmt.Errorf("%s: a DGX-1V has the GPUs 0 to %d", name, g.Ranks-1)
	}
	var ranks []int
	for r := first; r <= last; r++ {
		ranks = append(ranks, r)
	}
	one := g.Among(ranks)
	one.Name = name
	return one, nil
}

// The NVLinks of a V100, and the rate of each, in GB/s.
const (
	nvlinks    = 6
	nvlinkRate = 25
)

// describe returns the description that the C libraries read: a line per item, see topology.c.
func describe(g *topo.Graph, nonce uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %s\nnonce %x\nnumas %d\n", g.Name, nonce, numas(g))
	writeCPUs(&b, numas(g))
	for r := range g.Ranks {
		uuid := sha256.Sum256(fmt.Appendf(nil, "%s %x %d", g.Name, nonce, r))
		fmt.Fprintf(&b, "gpu %x bus %x numa %d cc 7.0 sms 80 pcie 3 x16 nvlink 2 %d memory %d name "+
			"Tesla V100-SXM2-16GB (fake)\n", uuid[:16], 6+3*r, numa(g, r), 1000*nvlinkRate, 256<<20)
	}
	for r := range g.Ranks {
		for _, end := range linksOf(g, r) {
			fmt.Fprintf(&b, "nvlink %d %s\n", r, end)
		}
	}
	rates := g.Rates()
	for x := range g.Ranks {
		for y := range x {
			rate, peer := rates.At(x, y), 0
			if rate > 0 {
				peer = 1
			}
			fmt.Fprintf(&b, "pair %d %d peer %d level %d rate %g\n", y, x, peer, level(g, y, x), rate)
		}
	}
	return b.String()
}

// writeCPUs distributes the CPUs that this process may use over the NUMA nodes; if there are too few, all nodes have
// all of them. If the CPUs are not known, there are none: a fake GPU without CPUs near it does no harm.
func writeCPUs(b *strings.Builder, nodes int) {
	all, _ := cpu.Allowed()
	for i, core := range all {
		for node := range nodes {
			if len(all) < nodes || i*nodes/len(all) == node {
				fmt.Fprintf(b, "cpu %d %d\n", node, core)
			}
		}
	}
}

// linksOf returns the other end of each NVLink of a GPU.
func linksOf(g *topo.Graph, r int) (ends []string) {
	for _, l := range g.Links {
		if l.Kind != "nvlink" || l.A != r && l.B != r {
			continue
		}
		for range int(l.GBytesPerSecond / nvlinkRate) {
			ends = append(ends, fmt.Sprint("gpu ", l.A+l.B-r))
		}
	}
	for len(ends) < nvlinks {
		ends = append(ends, "none")
	}
	return ends
}

// numas returns the number of sockets: more than two GPUs are on two, half of them on each.
func numas(g *topo.Graph) int { return min(2, (g.Ranks+1)/2) }

func numa(g *topo.Graph, r int) int { return r * numas(g) / g.Ranks }

// level returns the nearest common ancestor of two GPUs, in NVML's numbers: every two neighbors of a socket share a
// switch, and a socket's GPUs a host bridge.
func level(g *topo.Graph, x, y int) int {
	const single, hostBridge, system = 10, 30, 50
	switch {
	case numa(g, x) != numa(g, y):
		return system
	case x/2 == y/2:
		return single
	default:
		return hostBridge
	}
}
