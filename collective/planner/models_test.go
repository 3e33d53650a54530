package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// model is a machine or several on which plans are compared.
type model struct {
	family string
	graph  *topo.Graph
}

// models returns the machines of treerun and the following families, of which thorough has every member and the others
// some: a DGX-1V without every link, every pair of links and every set of GPUs; boxes of 4 to 16 GPUs behind PCIe
// switches; GPUs in pairs with a bridge; GPUs behind a switch of NVLinks; and full and partial meshes of 8 and 16 GPUs
// on 1, 2 and 4 hosts with 1 to 8 network cards as rails.
func models(thorough bool) (list []model) {
	add := func(family string, g *topo.Graph) { list = append(list, model{family, g}) }
	for _, name := range topo.Machines() {
		g, _ := topo.Machine(name)
		add("machines", g)
	}
	dgx1vs(thorough, func(g *topo.Graph) { add("dgx1v, less", g) })
	for n := 4; n <= 16; n++ {
		if thorough || n%3 == 1 {
			add("pcie", pcieBox(n))
		}
		if n%2 == 0 && (thorough || n%4 == 2) {
			add("bridges", bridgedBox(n))
		}
	}
	for _, n := range []int{4, 8, 16} {
		add("switch", switchBox(n, 300))
	}
	for _, hosts := range []int{1, 2, 4} {
		for name, inside := range meshes() {
			for _, cards := range []int{1, 2, 3, 4, 6, 8} {
				if hosts == 1 && cards > 1 || !thorough && cards != 1 && cards != 8 {
					continue
				}
				add(fmt.Sprintf("rails x %d", hosts), onRails(name, inside, hosts, cards))
			}
		}
	}
	slices.SortFunc(list, func(a, b model) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.graph.Name, b.graph.Name))
	})
	return list
}

// dgx1vs makes DGX-1V with NVLinks of 20 GB/s, as NCCL counts them, that have lost one link, two, or GPUs.
func dgx1vs(thorough bool, add func(*topo.Graph)) {
	whole, _ := topo.Machine("dgx1v")
	for i := range whole.Links {
		whole.Links[i].GBytesPerSecond *= 0.8
	}
	// less returns a DGX-1V without one NVLink of link i and one of link j.
	less := func(i, j int) *topo.Graph {
		g := &topo.Graph{Name: "dgx1v less", Ranks: 8}
		for k, l := range whole.Links {
			for _, lost := range []int{i, j} {
				if k == lost {
					l.GBytesPerSecond -= 20
					g.Name += fmt.Sprintf(" %d-%d", l.A, l.B)
				}
			}
			if l.GBytesPerSecond > 0 {
				g.Links = append(g.Links, l)
			}
		}
		return g
	}
	for i := range whole.Links {
		add(less(i, -1))
		for j := i + 1; j < len(whole.Links); j++ {
			if g := less(i, j); (thorough || (i+j)%16 == 0) && g.Validate() == nil {
				add(g)
			}
		}
	}
	for set := 1; set < 255; set++ {
		ranks := slices.DeleteFunc(numbers.Below(8), func(r int) bool { return set>>r&1 == 0 })
		if len(ranks) < 2 || !thorough && set%37 != 0 {
			continue
		}
		g := whole.Among(ranks)
		if g.Name = "dgx1v's " + topo.RankList(ranks); g.Validate() == nil {
			add(g)
		}
	}
}

// pcieBox is n GPUs behind PCIe 4 switches, up to three to one and two switches to a socket of AMD's.
func pcieBox(n int) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprintf("pcie%d", n), Ranks: n}
	socket := func(r int) int { return r * 2 / n }
	half := func(r int) int { return r * 4 / n }
	for a := range n {
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("gpu %d", a), Ranks: []int{a}, GBytesPerSecond: 24})
		for b := a + 1; b < n; b++ {
			l := topo.Link{A: a, B: b, GBytesPerSecond: 24, LatencyUs: 5, Kind: "pcie"}
			switch {
			case socket(a) != socket(b):
				l.GBytesPerSecond, l.LatencyUs = 16, 9
			case half(a) != half(b):
				l.LatencyUs = 7
			}
			g.Links = append(g.Links, l)
		}
	}
	addPorts(g, "switch", half, 24)
	addPorts(g, "socket", socket, 16)
	return g
}

// bridgedBox is n GPUs, pairs of which have an NVLink bridge and a PCIe switch.
func bridgedBox(n int) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprintf("bridges%d", n), Ranks: n}
	for a := range n {
		for b := a + 1; b < n; b++ {
			l := topo.Link{A: a, B: b, GBytesPerSecond: 12, LatencyUs: 9, Kind: "pcie"}
			if a/2 == b/2 {
				l = topo.Link{A: a, B: b, GBytesPerSecond: 56, LatencyUs: 1.5, Kind: "nvlink"}
			}
			g.Links = append(g.Links, l)
		}
	}
	addPorts(g, "switch", func(r int) int { return r / 2 }, 12)
	return g
}

// switchBox is n GPUs on a switch of NVLinks.
func switchBox(n int, rate float64) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprintf("switch%d", n), Ranks: n}
	for a := range n {
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("gpu %d", a), Ranks: []int{a}, GBytesPerSecond: rate})
		for b := a + 1; b < n; b++ {
			g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate, LatencyUs: 2, Kind: "nvswitch"})
		}
	}
	return g
}

// addPorts adds a port for every group of ranks with the same number.
func addPorts(g *topo.Graph, name string, of func(r int) int, rate float64) {
	groups := map[int][]int{}
	for r := range g.Ranks {
		groups[of(r)] = append(groups[of(r)], r)
	}
	for i := range g.Ranks {
		if ranks := groups[i]; len(ranks) > 0 && len(ranks) < g.Ranks {
			g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("%s %d", name, i), Ranks: ranks, GBytesPerSecond: rate})
		}
	}
}

// meshes returns the insides of hosts: links between GPUs, in the manner of servers with xGMI.
func meshes() map[string][]topo.Link {
	full := func(n int, rate func(a, b int) float64) (list []topo.Link) {
		for a := range n {
			for b := a + 1; b < n; b++ {
				if r := rate(a, b); r > 0 {
					list = append(list, topo.Link{A: a, B: b, GBytesPerSecond: r, LatencyUs: 0.8, Kind: "xgmi"})
				}
			}
		}
		return list
	}
	mi250, _ := topo.Machine("mi250")
	return map[string][]topo.Link{
		"mesh8":  full(8, func(a, b int) float64 { return 48 }),
		"mesh16": full(16, func(a, b int) float64 { return 24 }),
		"part8": full(8, func(a, b int) float64 { // six links of every GPU
			if a^b == 5 {
				return 0
			}
			return 24
		}),
		"cube8": full(8, func(a, b int) float64 { // and half of the mesh
			return map[int]float64{1: 48, 2: 24, 4: 24, 7: 24}[a^b]
		}),
		"dies16": full(16, func(a, b int) float64 { // two dies to a GPU
			return map[int]float64{1: 144, 2: 36, 4: 72, 12: 36, 9: 36}[a^b]
		}),
		"mi250": mi250.Links,
	}
}

// onRails returns hosts with the same links inside and network cards, the i-th of which reaches the i-th of other
// hosts only.
func onRails(name string, inside []topo.Link, hosts, cards int) *topo.Graph {
	n := 0
	for _, l := range inside {
		n = max(n, l.B+1)
	}
	g := &topo.Graph{Name: fmt.Sprintf("%s x %d", name, hosts), Ranks: hosts * n}
	if hosts > 1 {
		g.Name += fmt.Sprintf(", %d cards", cards)
	}
	for h := range hosts {
		for _, l := range inside {
			l.A, l.B = l.A+h*n, l.B+h*n
			g.Links = append(g.Links, l)
		}
		if hosts == 1 {
			return g
		}
		g.Hosts = append(g.Hosts, slices.Repeat([]int{h}, n)...)
		for c := range cards {
			for other := h + 1; other < hosts; other++ {
				at := c * n / cards
				g.Links = append(g.Links, topo.Link{A: h*n + at, B: other*n + at,
					GBytesPerSecond: 24 / float64(hosts-1), LatencyUs: 11.8, Kind: "net"})
			}
		}
	}
	return g
}
