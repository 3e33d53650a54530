package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// hosts describes several hosts to a Planner: the places of the ranks, and the network between the hosts.
type hosts struct {
	ranks       [][]int       // of every host, rising
	host, place []int         // by rank: its host, and where it stands in its ranks
	between     *topo.Graph   // of hosts
	even        bool          // all links and cards of between are equal
	most        int           // ranks of the largest host
	inside      []*topo.Graph // of every host
	first       []int         // by host: the first one with the same links inside
	rough       bool          // links inside some host differ
	ways        *topo.Ways
	quickest    map[[2]int32]topo.Link // by hosts: between any of their ranks
}

// newHosts returns nil for a graph of one host.
func newHosts(g *topo.Graph, ways *topo.Ways) *hosts {
	h := &hosts{ranks: g.ByHost()}
	if len(h.ranks) < 2 {
		return nil
	}
	h.host, h.place = topo.Places(h.ranks, g.Ranks)
	for _, ranks := range h.ranks {
		h.most = max(h.most, len(ranks))
	}
	h.between = g.BetweenHosts(h.ranks)
	h.even = h.between.IsEven()
	for i, ranks := range h.ranks {
		h.inside = append(h.inside, g.Among(ranks))
		h.first = append(h.first, slices.IndexFunc(h.inside, func(in *topo.Graph) bool { return sameLinks(in, h.inside[i]) }))
	}
	h.rough = h.most > 1 && slices.ContainsFunc(h.inside, func(in *topo.Graph) bool { return !in.IsUniform() })
	h.ways, h.quickest = ways, make(map[[2]int32]topo.Link)
	for _, l := range g.Links { // the quickest, of equals that of the lowest ranks
		a, b := h.host[l.A], h.host[l.B]
		if a == b {
			continue
		}
		old, ok := h.quickest[topo.Pair(a, b)]
		if !ok || cmp.Or(cmp.Compare(old.GBytesPerSecond, l.GBytesPerSecond),
			min(l.A, l.B)-min(old.A, old.B), max(l.A, l.B)-max(old.A, old.B)) < 0 {
			h.quickest[topo.Pair(a, b)] = l
		}
	}
	return h
}

// sameLinks reports whether two canonical graphs differ in the names and the order of ports only.
func sameLinks(a, b *topo.Graph) bool {
	byRanks := func(g *topo.Graph) []topo.Port {
		return slices.SortedFunc(slices.Values(g.Ports), func(p, q topo.Port) int {
			return cmp.Or(slices.Compare(p.Ranks, q.Ranks), cmp.Compare(p.GBytesPerSecond, q.GBytesPerSecond))
		})
	}
	samePort := func(p, q topo.Port) bool {
		return p.GBytesPerSecond == q.GBytesPerSecond && slices.Equal(p.Ranks, q.Ranks)
	}
	return a.Ranks == b.Ranks && slices.Equal(a.Links, b.Links) && slices.EqualFunc(byRanks(a), byRanks(b), samePort)
}

// standIn returns the rank at the place of root on the first host that can change places with root's, and the
// numbering in which they do: by rank of the plans of that one, the rank of root's.
func (h *hosts) standIn(g *topo.Graph, root int) (rank int, order []int) {
	at := h.host[root]
	for host := range h.ranks[:at] {
		if len(h.ranks[host]) != len(h.ranks[at]) {
			continue
		}
		order = numbers.Below(g.Ranks)
		for i, r := range h.ranks[host] {
			order[r], order[h.ranks[at][i]] = h.ranks[at][i], r
		}
		if sameLinks(g, renamed(g, order)) {
			return h.ranks[host][h.place[root]], order
		}
	}
	return root, nil
}

// renamed returns a graph with every rank r called order[r], in canonical form.
func renamed(g *topo.Graph, order []int) *topo.Graph {
	f := &topo.Graph{Ranks: g.Ranks, Links: slices.Clone(g.Links), Ports: slices.Clone(g.Ports)}
	for i, l := range f.Links {
		f.Links[i].A, f.Links[i].B = order[l.A], order[l.B]
	}
	for i, p := range f.Ports {
		f.Ports[i].Ranks = nil
		for _, r := range p.Ranks {
			f.Ports[i].Ranks = append(f.Ports[i].Ranks, order[r])
		}
	}
	return f.Canonical()
}

// alone reports whether every host has one rank, so that algorithms between hosts are
// all that there is.
func (h *hosts) alone() bool { return h != nil && h.most == 1 }

// alike reports whether all hosts have the same number of ranks.
func (h *hosts) alike() bool { return len(h.host) == len(h.ranks)*h.most }

// leaders is the number of ranks of a host that carry shares of the message between hosts.
func (h *hosts) leaders() int { return min(h.most, maxLeaders) }

const maxLeaders = 8

// leader returns the rank that carries the c-th share of a host's trees. On a host with
// fewer ranks some carry several.
func (h *hosts) leader(host, c int) int {
	ranks := h.ranks[host]
	if len(ranks) <= h.leaders() {
		return ranks[c%len(ranks)]
	}
	return ranks[c*len(ranks)/h.leaders()]
}

// compose returns the tree over all ranks in which the leaders of the hosts have the
// hosts' places in t, and the other ranks of a host stand in its local tree.
//
// Neighboring hosts are joined by the link between their leaders, or the TCP wire of
// their hosts. Where the graph has neither, the quickest link between any of their ranks
// stands in, and the local tree hangs from its end.
func (h *hosts) compose(t topo.Tree, within local, leader func(host int) int) (topo.Tree, error) {
	all := topo.Tree{Root: leader(t.Root), Parent: make([]int, len(h.host))}
	for host, ranks := range h.ranks {
		top, parent := leader(host), -1
		below := within(host, h.place[top])
		if up := t.Parent[host]; up >= 0 {
			l, err := h.joint(up, leader(up), host, top)
			if err != nil {
				return all, err
			}
			parent = l.A
			if top != l.B {
				top = l.B
				below = below.Reroot(h.place[top])
			}
		}
		for v, p := range below.Links() {
			all.Parent[ranks[v]] = ranks[p]
		}
		all.Parent[top] = parent
	}
	return all, nil
}

// joint returns the link that joins hosts up and down: that of their leaders u and
// d if there is one. A is on up.
func (h *hosts) joint(up, u, down, d int) (topo.Link, error) {
	if len(h.ways.Route(u, d)) == 1 {
		return topo.Link{A: u, B: d}, nil
	}
	l, ok := h.quickest[topo.Pair(up, down)]
	if !ok {
		return topo.Link{}, fmt.Errorf("the graph has no link between hosts %d and %d", up, down)
	}
	if h.host[l.A] != up {
		l.A, l.B = l.B, l.A
	}
	return l, nil
}
