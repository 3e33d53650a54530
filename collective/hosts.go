package collective

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// hosts is what a planner knows of several hosts: who is where, the network
// between them, and trees over them. Plans between hosts are such trees with the
// ranks of every host hung in: on every host one rank after the other is the
// carrier of a tree, its share of the message is reduced to it and handed out
// from it, so that all ranks, and whatever cards they have, work at once.
type hosts struct {
	ranks       [][]int     // of every host, rising
	host, place []int       // by rank: its host, and where it stands in its ranks
	between     *topo.Graph // of hosts
	even        bool        // all links and cards of between are alike
	level       bool        // there are no limits but the cores that all hosts share
	most        int         // ranks of the largest host
	carriers    int         // trees of every tree over hosts
	sets        map[setKey]treeSet
}

// setKey names a set of trees over hosts that takes time to find: rank 0 does.
type setKey struct {
	shape shape
	of    setKind
	root  int // host, of oneWay; else -1
}

type setKind uint8

const (
	bothWays setKind = iota // up and down again: AllReduce
	oneWay                  // from a host, or to it: Broadcast, Reduce
	ofParts                 // from every host, or to it: AllGather, ReduceScatter
)

// treeSet is trees over hosts with their shares of a message; nil weights are
// equal. Those of parts have the weights of the parts of their roots' ranks.
type treeSet struct {
	trees   []topo.Tree
	weights []float64
}

// Limits, by what the trees take to find and their links to keep.
const (
	directHosts = 16 // up to so many every host owns slices of a message
	packedHosts = 32 // up to so many trees between uneven hosts are packed
	rootedHosts = 12 // up to so many for every root
	packedTrees = 12 // at most so many at a time, on networks of more than fewHosts
	fewHosts    = 6
	mostCarried = 8 // carriers of a host
)

// newHosts returns nil for a graph of one host.
func newHosts(g *topo.Graph) *hosts {
	h := &hosts{ranks: plan.Hosts(g), host: make([]int, g.Ranks), place: make([]int, g.Ranks), sets: make(map[setKey]treeSet)}
	if len(h.ranks) < 2 {
		return nil
	}
	for i, ranks := range h.ranks {
		h.most = max(h.most, len(ranks))
		for k, r := range ranks {
			h.host[r], h.place[r] = i, k
		}
	}
	h.carriers = min(h.most, mostCarried)
	h.between = g.BetweenHosts(h.ranks)
	h.even = evenNetwork(h.between)
	return h
}

// evenNetwork reports whether all hosts have links to all others, all of one
// rate and latency, and either no cards or one each, all of one rate.
func evenNetwork(g *topo.Graph) bool {
	links := *g
	links.Ports = nil
	if !links.IsUniform() {
		return false
	}
	seen := make([]bool, g.Ranks)
	for _, p := range g.Ports {
		if len(p.Ranks) != 1 || seen[p.Ranks[0]] || p.GBytesPerSecond != g.Ports[0].GBytesPerSecond {
			return false
		}
		seen[p.Ranks[0]] = true
	}
	return len(g.Ports) == 0 || len(g.Ports) == g.Ranks
}

// offered returns the shapes for several hosts of so many ranks in all.
func (h *hosts) offered(size int) []shape {
	n := len(h.ranks)
	var list []shape
	add := func(s shape, when bool) {
		if when {
			list = append(list, s)
		}
	}
	add(flat, size <= directRanks)
	add(leaders, n <= directHosts && (h.most > 1 || size > directRanks))
	add(leadersDoubling, n > 2)
	add(hostsTree, true)
	add(hostsDirect, n <= directHosts || size <= pairRanks)
	add(hostsDouble, n > 3 && (!h.level || n > directHosts)) // it takes turns more often than slices
	add(hostsPacked, !h.even && n <= packedHosts)
	add(starShape, size <= directRanks)
	add(directOne, size <= pairRanks)
	add(directMany, size <= pairRanks)
	return list
}

// fits reports whether kind runs in shape s on several hosts.
func (h *hosts) fits(kind plan.Kind, s shape) bool {
	parts := kind == plan.AllGather || kind == plan.ReduceScatter
	switch s {
	case flat, leaders, leadersDoubling:
		return kind == plan.AllReduce || kind == plan.Barrier
	case starShape:
		return kind == plan.Barrier && len(h.host) <= directRanks
	case hostsTree:
		return kind == plan.Broadcast || kind == plan.Reduce
	case hostsDirect:
		if parts {
			return len(h.host) <= pairRanks
		}
		return spreads(kind) && len(h.ranks) <= directHosts
	case hostsDouble:
		return spreads(kind)
	case hostsPacked:
		if parts {
			return h.has(setKey{s, ofParts, -1})
		}
		return spreads(kind)
	}
	return !parts && !spreads(kind) && kind != plan.Barrier
}

// spreads reports whether a kind is a reduction, a broadcast or both of one
// message.
func spreads(kind plan.Kind) bool {
	return kind == plan.AllReduce || kind == plan.Reduce || kind == plan.Broadcast
}

func (h *hosts) has(k setKey) bool {
	_, ok := h.sets[k]
	return ok
}

// find makes the sets of the offered shapes that follow from the rates of the
// network.
func (h *hosts) find(offered []shape) error {
	if slices.Contains(offered, hostsDouble) {
		trees, err := h.doubleBinary()
		if err != nil {
			return fmt.Errorf("double binary trees between hosts: %w", err)
		}
		h.sets[setKey{hostsDouble, bothWays, -1}] = treeSet{trees: trees}
	}
	if !slices.Contains(offered, hostsPacked) {
		return nil
	}
	if err := h.pack(); err != nil {
		return fmt.Errorf("trees between hosts: %w", err)
	}
	return nil
}

func (h *hosts) doubleBinary() ([]topo.Tree, error) {
	if !h.even {
		return tree.DoubleBinaryOn(h.between, tree.Current)
	}
	two := tree.DoubleBinary(len(h.ranks), tree.Current)
	return two[:], nil
}

// pack packs trees into the network, for every use of them. For a Broadcast and
// a Reduce on many hosts, and where there is no packing of parts, the trees that
// are used both ways serve.
func (h *hosts) pack() error {
	n := len(h.ranks)
	var o pack.Options
	if n > fewHosts {
		o.MaxTrees = packedTrees
	}
	r, err := pack.Pack(h.between, o)
	if err != nil {
		return err
	}
	h.sets[setKey{hostsPacked, bothWays, -1}] = treeSet{r.Trees, r.Rates}
	if n <= rootedHosts {
		for a := range n {
			r, err := pack.PackOneWay(h.between, a, o)
			if err != nil {
				return err
			}
			h.sets[setKey{hostsPacked, oneWay, a}] = treeSet{r.Trees, r.Rates}
		}
	}
	if n > rootedHosts || len(h.host) != n*h.most || len(h.host) > pairRanks/2 {
		return nil // parts of different hosts are not alike, or there would be too many lanes
	}
	if r, err = pack.PackParts(h.between); err != nil {
		return err
	}
	set := treeSet{r.Trees, r.Rates}
	if h.most*n*set.perRoot(n) <= pairRanks {
		h.sets[setKey{hostsPacked, ofParts, -1}] = set
	}
	return nil
}

// perRoot returns the number of trees of the root that has the most.
func (s *treeSet) perRoot(hosts int) int {
	count := make([]int, hosts)
	for _, t := range s.trees {
		count[t.Root]++
	}
	return slices.Max(count)
}

// set returns the trees of a shape for a use of them.
func (h *hosts) set(k setKey) treeSet {
	if s, ok := h.sets[k]; ok {
		return s
	}
	n := len(h.ranks)
	var s treeSet
	switch {
	case k.shape == hostsTree:
		return treeSet{trees: []topo.Tree{shallow(n, k.root)}}
	case k.shape == hostsDirect && k.of == oneWay:
		return treeSet{trees: relays(n, k.root)}
	case k.shape == hostsDirect:
		for a := range n {
			s.trees = append(s.trees, topo.Star(n, a))
		}
		return s
	}
	both := h.sets[setKey{k.shape, bothWays, -1}]
	for _, t := range both.trees {
		s.trees = append(s.trees, t.Reroot(k.root))
	}
	s.weights = both.weights
	return s
}

// shallow is a tree of n hosts for small messages: a star, as long as serving
// everybody takes the root no longer than a message takes, else a binomial tree.
func shallow(n, root int) topo.Tree {
	const most = 8
	if n <= most {
		return topo.Star(n, root)
	}
	return tree.Binomial(n, root)
}

// relays is one tree for every host but the root: it takes its share from the
// root and gives it to all others. So every card takes the message in once, and
// sends no more than once.
func relays(n, root int) []topo.Tree {
	var list []topo.Tree
	for d := 1; d < n; d++ {
		via := (root + d) % n
		t := topo.Star(n, via)
		t.Root, t.Parent[root], t.Parent[via] = root, -1, root
		list = append(list, t)
	}
	return list
}
