package fakegpu

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/topo"
)

const maxGPUs = 64 // as in src/host.h

// someRanks parts "NAME/0-3" from the ranks.
var someRanks = regexp.MustCompile(`^(.+)/(\d+)(?:-(\d+))?$`)

// load returns the graph of one host that "NAME" or "NAME/FIRST-LAST" names: the first
// host's ranks, or these.
func load(name string) (*topo.Graph, error) {
	base, first, last := name, 0, -1
	if m := someRanks.FindStringSubmatch(name); m != nil {
		base = m[1]
		first, _ = strconv.Atoi(m[2])
		last, _ = strconv.Atoi(cmp.Or(m[3], m[2]))
	}
	g, ok := topo.Machine(base)
	if !ok {
		data, err := os.ReadFile(base)
		if err == nil {
			g, err = topo.ParseGraph(data)
		}
		if err != nil {
			return nil, fmt.Errorf("graph %s, which is none of treerun's machines (%s): %w", base,
				strings.Join(topo.Machines(), ", "), err)
		}
	}
	var ranks []int
	for r := range g.Ranks {
		if g.Host(r) == g.Host(min(first, g.Ranks-1)) && (last < 0 || first <= r && r <= last) {
			ranks = append(ranks, r)
		}
	}
	if last >= 0 && (first > last || len(ranks) != last-first+1) {
		return nil, fmt.Errorf("graph %s: ranks %d-%d are not all ranks of one host", name, first, last)
	}
	one := g.Among(ranks)
	one.Name, one.Hosts = name, nil
	if one.Ranks > maxGPUs {
		return nil, fmt.Errorf("graph %s has %d ranks on a host, at most %d can be GPUs", name, one.Ranks, maxGPUs)
	}
	return one, nil
}

// model is a product whose NVLinks or PCIe the rates of a graph tell.
type model struct {
	name         string
	major, minor int
	processors   int
	pcie         int // generation
	version      int // of NVLink, as NVML numbers them
	links        int // NVLinks of a GPU
	rate         float64
}

var models = []model{
	{"Tesla P100-SXM2-16GB", 6, 0, 56, 3, 1, 4, 20},
	{"Tesla V100-SXM2-16GB", 7, 0, 80, 3, 2, 6, 25},
	{"NVIDIA A100-SXM4-40GB", 8, 0, 108, 4, 4, 12, 25},
	{"NVIDIA H100 80GB HBM3", 9, 0, 132, 5, 6, 18, 25},
	{"Tesla V100-PCIE-16GB", 7, 0, 80, 3, 0, 0, 0}, // without NVLinks
}

// modelOf finds the first model whose links suffice for every rank of g, counted
// through their rates.
func modelOf(g *topo.Graph) model {
	for _, m := range models {
		if m.links == 0 {
			break
		}
		used := make([]int, g.Ranks)
		fits, any := true, false
		for _, l := range g.Links {
			if !nvlink(l) {
				continue
			}
			n := math.Round(l.GBytesPerSecond / m.rate)
			fits = fits && math.Abs(n*m.rate-l.GBytesPerSecond) < 1e-6 && n >= 1
			any = true
			if l.Kind == "nvswitch" {
				used[l.A], used[l.B] = int(n), int(n)
				fits = fits && int(n) == m.links
				continue
			}
			used[l.A] += int(n)
			used[l.B] += int(n)
		}
		if any && fits && slices.Max(used) <= m.links {
			return m
		}
	}
	return models[len(models)-1]
}

func nvlink(l topo.Link) bool { return l.Kind == "nvlink" || l.Kind == "nvswitch" }

// describe writes what the C libraries read: a line per thing, see topology.c.
func describe(g *topo.Graph, nonce uint64) (string, error) {
	m := modelOf(g)
	var b strings.Builder
	fmt.Fprintf(&b, "graph %.120s\nnonce %x\nnumas %d\n", strings.Map(plain, g.Name), nonce, numas(g))
	writeCPUs(&b, numas(g))
	switches := 0 // that a GPU's links are spread over
	if slices.ContainsFunc(g.Links, func(l topo.Link) bool { return l.Kind == "nvswitch" }) {
		switches = min(m.links, 6)
	}
	for i := range switches {
		fmt.Fprintf(&b, "switch bus %x\n", 0xd0+i)
	}
	for r := range g.Ranks {
		uuid := sha256.Sum256(fmt.Appendf(nil, "%s %x %d", g.Name, nonce, r))
		fmt.Fprintf(&b, "gpu %x bus %x numa %d cc %d.%d sms %d pcie %d x16 nvlink %d %d memory %d name %s (fake)\n",
			uuid[:16], 6+3*r, numa(g, r), m.major, m.minor, m.processors, m.pcie, m.version, int(1000*m.rate), 256<<20, m.name)
	}
	for r := range g.Ranks {
		for _, end := range linksOf(g, m, r, switches) {
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
	return b.String(), nil
}

// writeCPUs shares the CPUs that this process may use among the NUMA nodes; all
// nodes have all where there are too few.
func writeCPUs(b *strings.Builder, nodes int) {
	cpus := allowedCPUs()
	for i, cpu := range cpus {
		for node := range nodes {
			if len(cpus) < nodes || i*nodes/len(cpus) == node {
				fmt.Fprintf(b, "cpu %d %d\n", node, cpu)
			}
		}
	}
}

// allowedCPUs returns those of this process, none where it is not told: a fake GPU without CPUs
// near it is no harm.
func allowedCPUs() (cpus []int) {
	var set unix.CPUSet
	_ = unix.SchedGetaffinity(0, &set)
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func plain(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// linksOf says what is at the other end of each NVLink of a GPU.
func linksOf(g *topo.Graph, m model, r, switches int) (ends []string) {
	for i := 0; i < m.links && switches > 0; i++ {
		ends = append(ends, fmt.Sprint("switch ", i%switches))
	}
	for _, l := range g.Links {
		if l.Kind != "nvlink" || l.A != r && l.B != r {
			continue
		}
		for range int(math.Round(l.GBytesPerSecond / m.rate)) {
			ends = append(ends, fmt.Sprint("gpu ", l.A+l.B-r))
		}
	}
	for len(ends) < m.links {
		ends = append(ends, "none")
	}
	return ends[:m.links]
}

// numas: more than two GPUs are on two sockets, half of them each.
func numas(g *topo.Graph) int {
	if g.Ranks > 2 {
		return 2
	}
	return 1
}

func numa(g *topo.Graph, r int) int { return r * numas(g) / g.Ranks }

// level is the nearest common ancestor of two GPUs, as NVML counts: every two
// neighbours of a socket share a switch, and a socket's GPUs a host bridge.
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
