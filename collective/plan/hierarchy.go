package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Hierarchy is a set of trees in two levels: trees between hosts, such as the
// two of a double binary tree or a packing of the network, and trees inside
// every host, which hang below the rank that carries the host's share.
type Hierarchy struct {
	// Hosts has the ranks of every host. Local and Between speak of ranks and
	// hosts by their place in it. Hosts may differ in size.
	Hosts [][]int
	// Local has the trees of every host over its own ranks, at least one each.
	// The root of a tree is the rank that carries its share: with a tree for
	// every root, every rank of the host carries some.
	Local [][]topo.Tree
	// Between has the trees over the hosts, at least one.
	Between []topo.Tree
	// Weights has the share of every tree of Between; nil: equal.
	Weights []float64
}

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

// Hierarchical builds the collective kind over the trees of h, as FromTrees
// does. root is used by Reduce and Broadcast only: there every tree hangs from
// it.
func Hierarchical(kind Kind, g *topo.Graph, h *Hierarchy, root int, opt Options) (*Plan, error) {
	trees, weights, err := h.Trees(g)
	if err != nil {
		return nil, err
	}
	if kind.HasRoot() {
		if root < 0 || root >= len(trees[0].Parent) {
			return nil, fmt.Errorf("plan: root %d of a %v is not a rank of 0..%d", root, kind, len(trees[0].Parent)-1)
		}
		for i, t := range trees {
			trees[i] = t.Reroot(root)
		}
		trees, weights = merge(trees, weights)
	}
	if opt.Name == "" {
		opt.Name = fmt.Sprintf("hierarchy(%d hosts, %d trees)", len(h.Hosts), len(trees))
		if opt.Form == Split && kind.bothWays() {
			opt.Name += " split"
		}
	}
	return FromTrees(kind, trees, weights, opt)
}

// Trees returns the trees over all ranks that h describes, with their shares:
// every tree of Between once for every carrier of the host that has the most
// of them. A host with fewer takes turns. Equal trees become one.
//
// Neighbouring hosts are joined by the link of g between their carriers, or the
// TCP wire of their hosts. Where there is neither, the quickest link between any
// of their ranks stands in, and the local tree hangs from its end.
func (h *Hierarchy) Trees(g *topo.Graph) (trees []topo.Tree, weights []float64, err error) {
	carriers, err := h.validate(g)
	if err != nil {
		return nil, nil, err
	}
	j := newJoints(g, h.Hosts)
	for c := range carriers {
		for b, between := range h.Between {
			t, err := h.compose(j, between, c)
			if err != nil {
				return nil, nil, fmt.Errorf("plan: tree %d between hosts: %w", b, err)
			}
			trees, weights = append(trees, t), append(weights, weightOf(h.Weights, b))
		}
	}
	trees, weights = merge(trees, weights)
	return trees, weights, nil
}

// merge gives the share of every tree that stands before to the first such.
func merge(trees []topo.Tree, weights []float64) ([]topo.Tree, []float64) {
	var different []topo.Tree
	var sums []float64
	for i, t := range trees {
		k := slices.IndexFunc(different, func(d topo.Tree) bool { return slices.Equal(d.Parent, t.Parent) })
		if k < 0 {
			different, sums = append(different, t), append(sums, weights[i])
			continue
		}
		sums[k] += weights[i]
	}
	return different, sums
}

// validate checks h against g and returns the number of carriers of the host
// that has the most.
func (h *Hierarchy) validate(g *topo.Graph) (carriers int, err error) {
	switch {
	case len(h.Hosts) == 0 || len(h.Local) != len(h.Hosts):
		return 0, fmt.Errorf("plan: hierarchy of %d hosts with local trees for %d", len(h.Hosts), len(h.Local))
	case len(h.Between) == 0:
		return 0, fmt.Errorf("plan: hierarchy without trees between its hosts")
	case h.Weights != nil && len(h.Weights) != len(h.Between):
		return 0, fmt.Errorf("plan: hierarchy with %d weights for %d trees", len(h.Weights), len(h.Between))
	}
	var all []int
	for i, ranks := range h.Hosts {
		all = append(all, ranks...)
		if len(h.Local[i]) == 0 {
			return 0, fmt.Errorf("plan: host %d has no local tree", i)
		}
		for k, t := range h.Local[i] {
			if err := t.Validate(len(ranks)); err != nil {
				return 0, fmt.Errorf("plan: local tree %d of host %d: %w", k, i, err)
			}
		}
		carriers = max(carriers, len(h.Local[i]))
	}
	if err := checkRing(all, g.Ranks); err != nil {
		return 0, fmt.Errorf("plan: the hosts of a hierarchy: %w", err)
	}
	for b, t := range h.Between {
		if err := t.Validate(len(h.Hosts)); err != nil {
			return 0, fmt.Errorf("plan: tree %d between hosts: %w", b, err)
		}
	}
	return carriers, nil
}

// compose returns the tree over all ranks in which carrier c of every host has
// the host's place in between.
func (h *Hierarchy) compose(j *joints, between topo.Tree, c int) (topo.Tree, error) {
	local := func(host int) topo.Tree { return h.Local[host][c%len(h.Local[host])] }
	t := topo.Tree{Parent: make([]int, len(j.host))}
	place := func(host, top, parent int) { // hangs the host's tree by its rank top below parent
		ranks := h.Hosts[host]
		for v, p := range local(host).Reroot(top).Parent {
			t.Parent[ranks[v]] = parent
			if p >= 0 {
				t.Parent[ranks[v]] = ranks[p]
			}
		}
	}
	for host := range h.Hosts {
		up := between.Parent[host]
		top := local(host).Root
		if up < 0 {
			t.Root = h.Hosts[host][top]
			place(host, top, -1)
			continue
		}
		l, err := j.between(up, h.Hosts[up][local(up).Root], host, h.Hosts[host][top])
		if err != nil {
			return topo.Tree{}, err
		}
		place(host, j.place[l.B], l.A)
	}
	return t, nil
}

// joints finds links between hosts.
type joints struct {
	host, place []int                // by rank
	has         map[[2]int]bool      // pairs of ranks of different hosts, lower first
	wired       map[[2]int]bool      // pairs of hosts with a link of kind topo.TCP, both ways
	best        map[[2]int]topo.Link // by hosts: their quickest link, A on the first
}

func newJoints(g *topo.Graph, hosts [][]int) *joints {
	j := &joints{host: make([]int, g.Ranks), place: make([]int, g.Ranks), has: make(map[[2]int]bool), wired: make(map[[2]int]bool), best: make(map[[2]int]topo.Link)}
	for h, ranks := range hosts {
		for i, r := range ranks {
			j.host[r], j.place[r] = h, i
		}
	}
	for _, l := range g.Links {
		if j.host[l.A] == j.host[l.B] {
			continue
		}
		j.has[[2]int{min(l.A, l.B), max(l.A, l.B)}] = true
		if l.Kind == topo.TCP {
			a, b := j.host[l.A], j.host[l.B]
			j.wired[[2]int{a, b}], j.wired[[2]int{b, a}] = true, true
		}
		j.offer(l)
		l.A, l.B = l.B, l.A
		j.offer(l)
	}
	return j
}

// offer keeps l if it is quicker than what its hosts have, or as quick with
// lower ranks. Seen from the other host the choice is the same.
func (j *joints) offer(l topo.Link) {
	key := [2]int{j.host[l.A], j.host[l.B]}
	old, ok := j.best[key]
	if !ok || cmp.Or(cmp.Compare(old.GBytesPerSecond, l.GBytesPerSecond),
		min(l.A, l.B)-min(old.A, old.B), max(l.A, l.B)-max(old.A, old.B)) < 0 {
		j.best[key] = l
	}
}

// between returns the link that joins hosts up and down: that of their carriers
// u and d if there is one. A is on up.
func (j *joints) between(up, u, down, d int) (topo.Link, error) {
	if j.has[[2]int{min(u, d), max(u, d)}] || j.wired[[2]int{up, down}] {
		return topo.Link{A: u, B: d}, nil
	}
	l, ok := j.best[[2]int{up, down}]
	if !ok {
		return topo.Link{}, fmt.Errorf("the graph has no link between hosts %d and %d", up, down)
	}
	return l, nil
}
