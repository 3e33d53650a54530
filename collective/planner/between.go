package planner

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// betweens are the algorithms between hosts in the name of a hierarchical algorithm.
var betweens = []string{"flat", "doubling", "star", "direct", "double-binary", "packing"}

// The largest numbers of hosts, by the time to find the trees and the memory for their links.
const (
	starHosts   = 8  // for one host that serves all others with small messages
	directHosts = 16 // for plans in which every host owns slices of a message
	packedHosts = 32 // for packed trees between uneven hosts
	rootedHosts = 12 // for packed trees of every root
	packedTrees = 12 // most trees at a time, on networks of more than fewHosts
	fewHosts    = 6
	chosenHosts = 24 // for packing by the linear program, and greedily above
)

// treesBetween returns the trees over hosts, or the reason why trees of this kind are not tried.
func (x *pair) treesBetween() (*TreeSet, error) {
	switch x.between {
	case "star":
		return x.starBetween()
	case "direct":
		return x.directBetween()
	case "double-binary":
		return x.doubleBinaryBetween()
	}
	return x.packingBetween()
}

func (x *pair) starBetween() (*TreeSet, error) {
	q, h := &x.q, x.hosts
	if q.kind == plan.AllReduce || q.kind.HasParts() {
		return nil, reasonf("for broadcast and reduce")
	}
	return &TreeSet{Trees: []topo.Tree{shallow(len(h.ranks), h.host[max(q.root, 0)], starHosts)}}, nil
}

func (x *pair) directBetween() (*TreeSet, error) {
	q, h, n, parts := &x.q, x.hosts, len(x.hosts.ranks), x.q.kind.HasParts()
	f := &TreeSet{}
	switch {
	case q.ordered():
		trees, err := stars(q.site, h.between)
		return &TreeSet{Trees: trees}, err
	case parts && len(h.host) > PairRanks:
		return nil, reasonf("up to %d ranks", PairRanks)
	case !parts && n > directHosts && !x.requested:
		return nil, reasonf("up to %d hosts", directHosts)
	case q.kind.HasRoot():
		f.Trees = relays(n, h.host[q.root])
		return f, nil
	}
	for a := range n {
		f.Trees = append(f.Trees, topo.Star(n, a))
	}
	return f, nil
}

func (x *pair) doubleBinaryBetween() (*TreeSet, error) {
	h, n := x.hosts, len(x.hosts.ranks)
	switch {
	case x.q.kind.HasParts():
		return nil, reasonf("for allreduce, reduce and broadcast")
	case x.requested:
	case n <= 3:
		return nil, reasonf("up to 3 hosts other trees are as low")
	case h.even && len(h.between.Ports) == 0 && n <= directHosts:
		return nil, reasonf("between hosts without cards of their own slices take turns less often")
	}
	return x.q.found.get("double-binary between hosts", n, func() (*TreeSet, error) {
		if h.even {
			return &TreeSet{Trees: tree.DoubleBinary(n)}, nil
		}
		return &TreeSet{Trees: tree.DoubleBinaryOn(h.between)}, nil
	})
}

func (x *pair) packingBetween() (*TreeSet, error) {
	q, h, n, parts := &x.q, x.hosts, len(x.hosts.ranks), x.q.kind.HasParts()
	switch {
	case x.requested:
	case h.even:
		return nil, reasonf("all links and cards between hosts are equal: other trees fill them")
	case n > packedHosts:
		return nil, reasonf("up to %d hosts", packedHosts)
	}
	if parts && (n > rootedHosts || !h.alike() || len(h.host) > PairRanks/2) {
		return nil, reasonf("for up to %d hosts with as many ranks each, %d in all", rootedHosts, PairRanks/2)
	}
	o := q.site.options.pack()
	if n > fewHosts && o.MaxTrees == 0 && !x.requested {
		o.MaxTrees, o.Greedy = packedTrees, o.Greedy || n > chosenHosts
	}
	switch {
	case parts && n <= pack.MaxPartRanks && !q.site.options.limited():
		f, err := q.packed("packing of parts between hosts", h.between, pack.EveryRoot, o)
		if err == nil && h.most*n*maxOfRoot(f, n) > PairRanks && !x.requested {
			return nil, reasonf("too many lanes")
		}
		return f, err
	case q.kind.HasRoot() && (n <= rootedHosts || x.requested):
		root := h.host[q.root]
		return q.packed(fmt.Sprintf("packing from host %d", root), h.between, root, o)
	}
	f, err := q.packed("packing between hosts", h.between, pack.BothWays, o)
	if err != nil || !parts {
		return f, err
	}
	all := &TreeSet{Note: f.Note}
	for root := range n {
		for i, t := range f.Trees {
			all.Trees, all.Rates = append(all.Trees, t.Reroot(root)), append(all.Rates, f.weight(i))
		}
	}
	return all, nil
}

// maxOfRoot returns the number of trees of the root that has the most.
func maxOfRoot(f *TreeSet, hosts int) int {
	count := make([]int, hosts)
	for _, t := range f.Trees {
		count[t.Root]++
	}
	return slices.Max(count)
}

// shallow is a low tree over n ranks or hosts: a star up to most of them, where the root serves all in no more than the
// time of a message, else a binomial tree.
func shallow(n, root, most int) topo.Tree {
	if n <= most {
		return topo.Star(n, root)
	}
	return tree.Binomial(n, root)
}

// relays is one tree for every host but the root: it takes its share from the root and
// gives it to all others. So every card takes the message in once, and sends no more
// than once.
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
