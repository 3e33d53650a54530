package gpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Kinds of links between ranks on GPUs.
const (
	KindNVLink   = "nvlink"
	KindNVSwitch = "nvswitch"
	KindPCIe     = "pcie"
	KindPush     = "pcie-push" // over PCIe, where writing the other's memory is quicker than reading it
	KindSame     = "same-gpu"  // both ranks run on one GPU
	KindHost     = "host"      // through pinned memory of the host: the GPUs cannot reach each other
)

// Graph returns the graph of ranks that run on GPUs of m: rank r on the one with UUID devices[r]; several may share
// one. The measured values of found take the place of declared values, and a link with a fault there is left out.
//
// Where NVLinks join all of the ranks, there are no other links. Where they do not, every further pair has one over
// PCIe, or through the host if the GPUs cannot reach each other. Rates that links share are ports: those of a GPU to
// its NVSwitches, of its PCIe slot, of the uplink of a PCIe switch, and between sockets. A port counts all traffic of
// its ranks; PCIe ports that an NVLink bypasses cannot be expressed and are left out.
func Graph(m *Machine, devices []string, found []Finding) (*topo.Graph, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	b, err := newBuilder(m, devices)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if f.A < 0 || f.B >= len(devices) || f.A >= f.B {
			return nil, fmt.Errorf("gpu: measured the pair %d-%d of %d ranks", f.A, f.B, len(devices))
		}
		if f.Fault != "" {
			b.broken[[2]int{f.A, f.B}] = true
		}
	}
	g := &topo.Graph{Name: "gpus", Ranks: len(devices), Hosts: make([]int, len(devices))}
	g.Links = b.links()
	b.tooFast(g, found)
	g.Ports = b.ports(g)
	measured(g, found)
	return g, g.Validate()
}

// notPCIe is the factor of the slots' rate above which a copy cannot be over PCIe.
const notPCIe = 1.3

// tooFast takes links over PCIe whose measured rate excludes PCIe for ones over NVSwitches, which nothing declares.
func (b *builder) tooFast(g *topo.Graph, found []Finding) {
	index := g.LinkIndex()
	for _, f := range found {
		i, has := index[topo.Pair(f.A, f.B)]
		slots := min(b.m.slot(b.at[f.A]), b.m.slot(b.at[f.B]))
		if has && g.Links[i].Kind == KindPCIe && f.GBytesPerSecond > notPCIe*slots && f.usable() {
			g.Links[i].Kind = KindNVSwitch
		}
	}
}

// builder makes a graph.
type builder struct {
	m      *Machine
	at     []int // by rank: place of its GPU in m
	broken map[[2]int]bool
}

// newBuilder finds the GPUs of ranks.
func newBuilder(m *Machine, devices []string) (*builder, error) {
	b := &builder{m: m, at: make([]int, len(devices)), broken: make(map[[2]int]bool)}
	for r, uuid := range devices {
		if b.at[r] = m.place(uuid); b.at[r] < 0 {
			return nil, fmt.Errorf("gpu: rank %d runs on GPU %s, which is not among the %d of this host", r, uuid, len(m.GPUs))
		}
	}
	return b, nil
}

// links returns all links: those of NVLink and within GPUs, and the others where
// they do not join all ranks.
func (b *builder) links() []topo.Link {
	fast := b.pairs(b.fast)
	g := topo.Graph{Ranks: len(b.at), Links: fast}
	if len(g.Components()) == 1 {
		return fast
	}
	return b.pairs(func(x, y int) topo.Link {
		if l := b.fast(x, y); l.Kind != "" {
			return l
		}
		return b.slow(x, y)
	})
}

// pairs returns the links that make gives for pairs of ranks, but for those
// without a kind.
func (b *builder) pairs(link func(x, y int) topo.Link) []topo.Link {
	var list []topo.Link
	for x := range b.at {
		for y := x + 1; y < len(b.at); y++ {
			if l := link(x, y); l.Kind != "" {
				l.A, l.B, l.Source = x, y, topo.Declared
				list = append(list, l)
			}
		}
	}
	return list
}

// fast returns the link of two ranks over NVLink or within a GPU, without a kind
// when there is none.
func (b *builder) fast(x, y int) topo.Link {
	p, q := b.at[x], b.at[y]
	switch {
	case b.broken[[2]int{x, y}]:
		return topo.Link{}
	case p == q:
		return topo.Link{Kind: KindSame, GBytesPerSecond: sameRate(&b.m.GPUs[p]), LatencyUs: sameLatency}
	case b.m.refused(p, q) != "":
		return topo.Link{}
	}
	if rate := min(b.m.nvlinks(p, q), b.m.nvlinks(q, p)); rate > 0 {
		return topo.Link{Kind: KindNVLink, GBytesPerSecond: rate, LatencyUs: nvlinkLatency}
	}
	if rate := min(b.m.nvlinks(p, switches), b.m.nvlinks(q, switches)); rate > 0 {
		return topo.Link{Kind: KindNVSwitch, GBytesPerSecond: rate, LatencyUs: nvswitchLatency}
	}
	return topo.Link{}
}

// slow returns the link of two ranks over PCIe or through the host.
func (b *builder) slow(x, y int) topo.Link {
	p, q := b.at[x], b.at[y]
	if b.broken[[2]int{x, y}] || p != q && b.m.refused(p, q) != "" {
		return b.host(x, y)
	}
	return topo.Link{Kind: KindPCIe, GBytesPerSecond: b.slots(x, y), LatencyUs: pcieLatency[b.m.level(p, q)]}
}

// host returns the link of two ranks through the host's memory.
func (b *builder) host(x, y int) topo.Link {
	return topo.Link{Kind: KindHost, GBytesPerSecond: b.slots(x, y) * hostShare, LatencyUs: hostLatency}
}

// slots returns the bandwidth of the PCIe slots of two ranks' GPUs and of the way between these.
func (b *builder) slots(x, y int) float64 {
	p, q := b.at[x], b.at[y]
	rate := min(b.m.slot(p), b.m.slot(q))
	if b.m.level(p, q) == LevelSystem {
		rate = min(rate, SocketRate)
	}
	return rate
}

// switches stands for the NVSwitches in place of a GPU.
const switches = -1

// nvlinks returns the bandwidth of the NVLinks of GPU p that end at GPU q, or at switches, in GB/s.
func (m *Machine) nvlinks(p, q int) float64 {
	sum := 0.0
	for _, l := range m.GPUs[p].NVLinks {
		if l.Switch == (q == switches) && (l.Switch || l.Remote == m.GPUs[q].PCI) {
			sum += cmp.Or(l.Rate, nvlinkRate(l.Version))
		}
	}
	return sum
}

// switchKind returns the kind of the GPU's port to NVSwitches: those that NVLinks of generation 4 and later lead to
// reduce data themselves.
func (g *GPU) switchKind() string {
	if slices.ContainsFunc(g.NVLinks, func(l NVLink) bool { return l.Switch && l.Version >= 4 }) {
		return topo.NVLS
	}
	return ""
}

// slot returns the bandwidth of the PCIe slot of GPU p, in GB/s.
func (m *Machine) slot(p int) float64 {
	return PCIeRate(m.GPUs[p].PCIeGeneration, m.GPUs[p].PCIeWidth)
}

// ports returns the rates that links share.
func (b *builder) ports(g *topo.Graph) []topo.Port {
	var list []topo.Port
	add := func(name, kind string, rate float64, in func(place int) bool) {
		var ranks []int
		for r, p := range b.at {
			if in(p) {
				ranks = append(ranks, r)
			}
		}
		known := slices.ContainsFunc(list, func(p topo.Port) bool {
			return slices.Equal(p.Ranks, ranks) &&
				p.GBytesPerSecond <= rate
		})
		if len(ranks) > 0 && len(ranks) < len(b.at) && !known {
			list = append(list, topo.Port{Name: name, Ranks: ranks, GBytesPerSecond: rate, Kind: kind})
		}
	}
	for _, p := range b.used() {
		direct, switched := b.nvlinked(g, p)
		kind := ""
		if switched {
			direct = b.m.nvlinks(p, switches)
			kind = b.m.GPUs[p].switchKind()
		}
		if switched || direct > 0 && slices.Contains(b.at[slices.Index(b.at, p)+1:], p) {
			add(fmt.Sprintf("nvlinks of gpu %d", b.m.GPUs[p].Index), kind, direct, func(q int) bool { return p == q })
		}
	}
	slow := func(l topo.Link) bool { return l.Kind == KindPCIe || l.Kind == KindHost }
	if !slices.ContainsFunc(g.Links, slow) {
		return list
	}
	for _, s := range b.shared() {
		if s.crossed(b, g) {
			continue
		}
		add(s.name, "", s.rate, func(p int) bool { return slices.Contains(s.places, p) })
	}
	return list
}

// nvlinked returns the bandwidth of the NVLinks of the GPU at a place to other GPUs that ranks run on, if all links of
// its ranks to those are such; and whether all of them go over NVSwitches.
func (b *builder) nvlinked(g *topo.Graph, place int) (direct float64, switched bool) {
	seen := make(map[int]bool)
	kinds := make(map[string]bool)
	for _, l := range g.Links {
		p, q := b.at[l.A], b.at[l.B]
		if q == place {
			p, q = q, p
		}
		if p != place || q == place {
			continue
		}
		kinds[l.Kind] = true
		if !seen[q] {
			seen[q], direct = true, direct+l.GBytesPerSecond
		}
	}
	if len(kinds) > 1 || !kinds[KindNVLink] {
		direct = 0
	}
	return direct, len(kinds) == 1 && kinds[KindNVSwitch]
}

// used returns the places of the GPUs that ranks run on, ascending.
func (b *builder) used() []int {
	return slices.Compact(slices.Sorted(slices.Values(b.at)))
}

// group is a set of GPUs that share a way to all others.
type group struct {
	name   string
	rate   float64
	places []int
}

// crossed reports whether a link that is not of PCIe leads out of the group.
func (s *group) crossed(b *builder, g *topo.Graph) bool {
	return slices.ContainsFunc(g.Links, func(l topo.Link) bool {
		out := slices.Contains(s.places, b.at[l.A]) != slices.Contains(s.places, b.at[l.B])
		return out && l.Kind != KindPCIe && l.Kind != KindHost
	})
}

// shared returns the groups of GPUs that ranks run on: each GPU with its slot,
// GPUs behind one PCIe switch, and those of a socket where there are several.
func (b *builder) shared() (list []group) {
	add := func(what string, rate float64, places []int) {
		list = append(list, group{fmt.Sprintf("%s of gpu %d", what, b.m.GPUs[places[0]].Index), rate, places})
	}
	used := b.used()
	for _, p := range used {
		add("pcie", b.m.slot(p), []int{p})
	}
	for _, places := range b.joined(used, func(l Level) bool { return l == LevelBoard || l == LevelSwitch }) {
		if len(places) > 1 {
			quicker := func(p, q int) int { return cmp.Compare(b.m.slot(p), b.m.slot(q)) }
			rate := cmp.Or(b.m.GPUs[places[0]].Uplink, b.m.slot(slices.MaxFunc(places, quicker)))
			add("pcie switch", rate, places)
		}
	}
	sockets := b.joined(used, func(l Level) bool { return l != LevelSystem })
	for i, places := range sockets {
		if len(sockets) > 2 || i < len(sockets)-1 { // of two, all that leaves one enters the other
			add("socket", SocketRate, places)
		}
	}
	return list
}

// joined deals GPUs to groups whose levels are such.
func (b *builder) joined(places []int, such func(Level) bool) (groups [][]int) {
	for _, p := range places {
		i := slices.IndexFunc(groups, func(g []int) bool { return such(b.m.level(g[0], p)) })
		if i < 0 {
			groups = append(groups, []int{p})
		} else {
			groups[i] = append(groups[i], p)
		}
	}
	return groups
}

// Part is the graph of the GPUs of one host.
type Part struct {
	Ranks []int       // of the host, all of them, ascending
	Graph *topo.Graph // of as many ranks: its rank i is Ranks[i]
}

// Join returns the graph of ranks with GPUs on several hosts: the links and ports of ranks between hosts, where the
// network is known, and those of parts within hosts. A port within a host is named after the host, too.
func Join(ranks *topo.Graph, parts []Part) (*topo.Graph, error) {
	g := &topo.Graph{Name: "gpus", Ranks: ranks.Ranks, Hosts: slices.Clone(ranks.Hosts)}
	host := ranks.Host
	for _, l := range ranks.Links {
		if host(l.A) != host(l.B) {
			g.Links = append(g.Links, l)
		}
	}
	hosts := ranks.ByHost()
	for _, p := range ranks.Ports {
		in := func(r int) bool { return slices.Contains(p.Ranks, r) }
		split := func(of []int) bool { // has some ranks in the port, not all
			return slices.ContainsFunc(of, in) && slices.ContainsFunc(of, func(r int) bool { return !in(r) })
		}
		if !slices.ContainsFunc(hosts, split) {
			g.Ports = append(g.Ports, p)
		}
	}
	for _, part := range parts {
		for _, l := range part.Graph.Links {
			l.A, l.B = part.Ranks[l.A], part.Ranks[l.B]
			g.Links = append(g.Links, l)
		}
		for _, p := range part.Graph.Ports {
			at := make([]int, len(p.Ranks))
			for k, r := range p.Ranks {
				at[k] = part.Ranks[r]
			}
			p.Ranks = at
			if len(parts) > 1 {
				p.Name = fmt.Sprintf("host %d: %s", host(part.Ranks[0]), p.Name)
			}
			g.Ports = append(g.Ports, p)
		}
	}
	slices.SortFunc(g.Links, func(a, b topo.Link) int { return cmp.Or(a.A-b.A, a.B-b.B) })
	return g, g.Validate()
}

// Fill returns g, a graph of the ranks on these GPUs of m, with a link through the host's memory for every pair that
// has none: traffic that does not go over NVLink goes there, or over PCIe, at no less. The graph does not express that
// such links share slots and sockets with each other, as documented at Graph.
func Fill(g *topo.Graph, m *Machine, devices []string) (*topo.Graph, error) {
	b, err := newBuilder(m, devices)
	if err != nil {
		return nil, err
	}
	links := g.LinkIndex()
	full := *g
	full.Links = append(slices.Clone(g.Links), b.pairs(func(x, y int) topo.Link {
		if _, has := links[topo.Pair(x, y)]; has {
			return topo.Link{}
		}
		return b.host(x, y)
	})...)
	slices.SortFunc(full.Links, func(a, b topo.Link) int { return cmp.Or(a.A-b.A, a.B-b.B) })
	return &full, full.Validate()
}
