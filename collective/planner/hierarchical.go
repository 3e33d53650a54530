package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

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

// The algorithms inside hosts and between them in the name of a hierarchical algorithm.
var (
	insides  = []string{"star", "multi", "kl", "exact", "packing"}
	betweens = []string{"flat", "doubling", "star", "direct", "double-binary", "packing"}
)

func checkHierarchy(variant string) error {
	pair, variant, _ := strings.Cut(variant, ":")
	inside, between, ok := strings.Cut(pair, "/")
	if !ok || !slices.Contains(insides, inside) || !slices.Contains(betweens, between) ||
		!slices.Contains([]string{"", variantOne, variantAll}, variant) {
		return fmt.Errorf("unknown algorithm %q: want hierarchical:INSIDE/BETWEEN, with %s inside hosts and %s between them",
			"hierarchical:"+pair, strings.Join(insides, ", "), strings.Join(betweens, ", "))
	}
	return nil
}

// hierarchical joins trees inside every host by trees between hosts. On every host one rank after the other is the
// leader of a tree: its share of the message is reduced to it and handed out from it, so that all ranks, and all their
// cards, work at once. Where every host has one rank, the candidates have the name of the algorithm between hosts.
func (p *Planner) hierarchical(kind plan.Kind, root int) ([]*Candidate, error) {
	h := p.Site.hosts
	switch {
	case h == nil:
		return nil, reasonf("all ranks are on one host")
	case h.alone() && strings.HasPrefix(p.Site.options.Algorithm, "hierarchical") && !p.any:
		return nil, reasonf("every host has one rank: ask for what is between hosts, one of %s",
			strings.Join(betweens, ", "))
	}
	var list []*Candidate
	var without []error
	for _, inside := range p.insidesTried() {
		for _, between := range betweens {
			more, err := p.joined(inside, between, kind, root)
			if err != nil {
				without = append(without, fmt.Errorf("%s/%s: %w", inside, between, err))
			}
			list = append(list, more...)
		}
	}
	if len(list) == 0 {
		return nil, reason(strings.ReplaceAll(errors.Join(without...).Error(), "\n", "; "))
	}
	return list, nil
}

// insidesTried returns the algorithms inside hosts that are tried: stars, and where links of some host differ those
// that look for good trees.
func (p *Planner) insidesTried() []string {
	if _, pair, ok := strings.Cut(p.Site.options.Algorithm, ":"); ok && p.asked("hierarchical") {
		inside, _, _ := strings.Cut(pair, "/")
		return []string{inside}
	}
	switch {
	case !p.Site.hosts.rough:
		return []string{"star"}
	case p.Site.hosts.most > jointRanks:
		return []string{"star", "kl", "packing"}
	}
	return insides
}

// joined makes the candidates of one algorithm inside hosts and one between them.
func (p *Planner) joined(inside, between string, kind plan.Kind, root int) ([]*Candidate, error) {
	h := p.Site.hosts
	name := "hierarchical:" + inside + "/" + between
	if h.alone() {
		name = between
	}
	asked := p.asked("hierarchical") && strings.Contains(p.Site.options.Algorithm, "/") || h.alone() &&
		p.asked(between)
	if between == "flat" || between == "doubling" && !p.Site.ordered(kind) {
		return p.leaders(name, inside, between, kind, asked)
	}
	switch {
	case p.Site.ordered(kind) && inside == "star" && between == "direct":
		return p.directHosts(name, kind, root)
	case p.Site.ordered(kind):
		return nil, unordered()
	}
	return p.overHosts(name, inside, between, kind, root, asked)
}

// overHosts makes the candidates of trees inside hosts and trees between them.
func (p *Planner) overHosts(name, inside, between string, kind plan.Kind, root int, asked bool) ([]*Candidate, error) {
	h := p.Site.hosts
	if kind == plan.Barrier && (between != "star" || p.Site.disconnected == nil) {
		return nil, reasonf("a barrier carries no data")
	}
	if err := p.reaches(between, kind, asked); err != nil && !p.Site.ordered(kind) {
		return nil, err
	}
	trees, err := p.betweenTrees(between, kind, root, asked)
	if err != nil {
		return nil, err
	}
	within, err := p.within(inside, kind)
	if err != nil {
		return nil, err
	}
	c := Candidate{Algorithm: name, Kind: kind, Root: root}
	leaders := h.leaders()
	if between == "star" { // a small message between hosts is not divided
		leaders = 1
	}
	weights, err := h.overLeaders(&c, trees, within, leaders)
	if err != nil {
		return nil, err
	}
	if trees.Note != "" {
		c.Notes = append(c.Notes, trees.Note)
	}
	list, err := p.ofChannels(c, weights)
	if kind != plan.Barrier { // small messages have algorithms of their own between hosts
		list = slices.DeleteFunc(list, func(c *Candidate) bool { return c.Variant == variantOne })
	}
	for _, c := range list {
		c.form = plan.Split
		if c.Variant == variantAll {
			c.Variant = ""
		}
	}
	return list, err
}

// reaches reports why trees of this kind between hosts are not tried.
func (p *Planner) reaches(between string, kind plan.Kind, asked bool) error {
	h := p.Site.hosts
	n, size := len(h.ranks), len(h.host)
	parts := kind.HasParts()
	switch between {
	case "star":
		if kind == plan.AllReduce || parts {
			return reasonf("for broadcast and reduce")
		}
	case "direct":
		if parts && size > PairRanks {
			return reasonf("up to %d ranks", PairRanks)
		}
		if !parts && n > directHosts && !asked {
			return reasonf("up to %d hosts", directHosts)
		}
	case "double-binary":
		switch {
		case parts:
			return reasonf("for allreduce, reduce and broadcast")
		case asked:
		case n <= 3:
			return reasonf("up to 3 hosts other trees are as low")
		case h.even && len(h.between.Ports) == 0 && n <= directHosts:
			return reasonf("between hosts without cards of their own slices take turns less often")
		}
	case "packing":
		switch {
		case asked:
		case h.even:
			return reasonf("all links and cards between hosts are alike: other trees fill them")
		case n > packedHosts:
			return reasonf("up to %d hosts", packedHosts)
		}
		if parts && (n > rootedHosts || !h.alike() || size > PairRanks/2) {
			return reasonf("for up to %d hosts with as many ranks each, %d in all", rootedHosts,
				PairRanks/2)
		}
	}
	return nil
}

// betweenTrees returns the trees over hosts for a kind and root.
func (p *Planner) betweenTrees(between string, kind plan.Kind, root int, asked bool) (*TreeSet, error) {
	h := p.Site.hosts
	n := len(h.ranks)
	switch between {
	case "star":
		return &TreeSet{Trees: []topo.Tree{shallow(n, h.host[max(root, 0)], starHosts)}}, nil
	case "direct":
		if p.Site.ordered(kind) {
			trees, err := p.inside("direct", h.between)
			return &TreeSet{Trees: trees}, err
		}
		if kind.HasRoot() {
			return &TreeSet{Trees: relays(n, h.host[root])}, nil
		}
		f := &TreeSet{}
		for a := range n {
			f.Trees = append(f.Trees, topo.Star(n, a))
		}
		return f, nil
	case "double-binary":
		return p.treeSet("double-binary between hosts", n, func() (*TreeSet, error) {
			if h.even {
				return &TreeSet{Trees: tree.DoubleBinary(n)}, nil
			}
			return &TreeSet{Trees: tree.DoubleBinaryOn(h.between)}, nil
		})
	}
	o := p.Site.options.pack()
	if n > fewHosts && o.MaxTrees == 0 && !asked {
		o.MaxTrees, o.Greedy = packedTrees, o.Greedy || n > chosenHosts
	}
	switch {
	case kind.HasParts() && n <= pack.MaxPartRanks && !p.Site.options.limited():
		f, err := p.packed("packing of parts between hosts", h.between, pack.EveryRoot, o)
		if err == nil && h.most*n*perRoot(f, n) > PairRanks && !asked {
			return nil, reasonf("too many lanes")
		}
		return f, err
	case kind.HasRoot() && (n <= rootedHosts || asked):
		a := h.host[root]
		return p.packed(fmt.Sprintf("packing from host %d", a), h.between, a, o)
	}
	return p.packed("packing between hosts", h.between, pack.BothWays, o)
}

// perRoot returns the number of trees of the root that has the most.
func perRoot(f *TreeSet, hosts int) int {
	count := make([]int, hosts)
	for _, t := range f.Trees {
		count[t.Root]++
	}
	return slices.Max(count)
}

// within returns the trees inside hosts by an algorithm.
func (p *Planner) within(inside string, kind plan.Kind) (local, error) {
	h := p.Site.hosts
	if inside == "star" && !p.Site.ordered(kind) {
		return func(host, root int) topo.Tree { return shallow(len(h.ranks[host]), root, directRanks) }, nil
	}
	var sets []*TreeSet
	for i, ranks := range h.ranks {
		f, err := p.treeSet(fmt.Sprintf("%s inside host %d", inside, i), len(ranks), func() (*TreeSet, error) {
			g := p.Site.graph.Among(ranks)
			if err := g.Validate(); err != nil {
				return nil, err
			}
			trees, err := p.inside(inside, g)
			return &TreeSet{Trees: trees}, err
		})
		if err = cmp.Or(err, f.ofRoots()); err != nil {
			return nil, fmt.Errorf("inside host %d: %w", i, err)
		}
		sets = append(sets, f)
	}
	return func(host, root int) topo.Tree { return sets[host].Trees[root] }, nil
}

// inside returns a tree for every root of a host's graph.
func (p *Planner) inside(algorithm string, g *topo.Graph) (list []topo.Tree, err error) {
	switch algorithm {
	case "kl":
		return tree.KL(g, p.Site.options.penalty(), p.Site.options.Seed), nil
	case "exact":
		return tree.Exact(g)
	case "star", "direct":
		for root := range g.Ranks {
			t := tree.Star(g, root)
			t.Note = "" // that it is none
			list = append(list, t)
		}
		return list, nil
	case "chain":
		for root, t := range tree.InOrder(g, g.Ranks) {
			list = append(list, t.Reroot(root))
		}
		if list == nil {
			return nil, reasonf("the links do not join the ranks in their order")
		}
		return list, nil
	case "packing":
		r, err := pack.Pack(g, pack.BothWays, pack.Options{Seed: p.Site.options.Seed, MaxTrees: max(g.Ranks,
			1)})
		if err != nil {
			return nil, err
		}
		for root := range g.Ranks { // the packed trees, taking turns
			list = append(list, r.Trees[root%len(r.Trees)].Reroot(root))
		}
		return list, nil
	}
	return tree.Multi(g), nil
}

// overLeaders gives a candidate its trees over all ranks, and returns their weights: for each
// tree over hosts one per leader. A root that is given holds them all: it hands every share to
// the leader of its host. Where the message has parts, those of a rank, in the order of ranks,
// are over the trees that have its host as their root, and there the rank itself is it.
func (h *hosts) overLeaders(c *Candidate, f *TreeSet, within local, leaders int) (weights []float64, err error) {
	add := func(i int, t topo.Tree, leader func(host int) int) error {
		all, err := h.compose(t, within, leader)
		if err == nil && c.Root >= 0 {
			all = all.Reroot(c.Root)
		}
		c.Channels = append(c.Channels, Channel{Tree: all, OfPart: c.Kind.HasParts()})
		weights = append(weights, f.weight(i))
		return err
	}
	if !c.Kind.HasParts() {
		for i, t := range f.Trees {
			if c.Root >= 0 {
				t = t.Reroot(h.host[c.Root])
			}
			for k := range leaders {
				if err := add(i, t, func(host int) int { return h.leader(host, k) }); err != nil {
					return nil, err
				}
			}
		}
		return weights, nil
	}
	for r, at := range h.host {
		leader := func(host int) int {
			if host == at {
				return r
			}
			return h.leader(host, h.place[r]%h.leaders())
		}
		for i, t := range f.Trees {
			if t.Root != at {
				continue
			}
			if err := add(i, t, leader); err != nil {
				return nil, err
			}
		}
	}
	return weights, nil
}

func (f *TreeSet) weight(i int) float64 {
	if f.Rates == nil {
		return 1
	}
	return f.Rates[i]
}

// leaders makes the plan in which one rank of every host reduces the inputs of the host, and the leaders exchange the
// results: all to all, or at rising distances.
func (p *Planner) leaders(name, inside, between string, kind plan.Kind, asked bool) ([]*Candidate, error) {
	h := p.Site.hosts
	n, size := len(h.ranks), len(h.host)
	switch {
	case kind != plan.AllReduce && kind != plan.Barrier:
		return nil, reasonf("for allreduce and barrier")
	case inside != "star":
		return nil, reasonf("its leaders are the centres of stars")
	case p.Site.disconnected != nil:
		return nil, p.Site.disconnected
	case h.alone() && between == "flat" && size <= directRanks:
		return nil, reasonf("is flat itself")
	case between == "flat" && n > directHosts && !asked || n > PairRanks:
		return nil, reasonf("up to %d hosts", directHosts)
	case between == "doubling" && n <= 2 && !asked:
		return nil, reasonf("two hosts are at one distance")
	}
	stars := topo.Tree{Parent: slices.Repeat([]int{-1}, size)}
	for _, ranks := range h.ranks {
		for _, r := range ranks[1:] {
			stars.Parent[r] = ranks[0]
		}
	}
	if err := p.Site.routable([]Channel{{Tree: stars}}); err != nil {
		return nil, err
	}
	x := plan.Everybody
	if between == "doubling" {
		x = plan.Doubling
	}
	return fixed(name, kind, -1, func() (*plan.Plan, error) {
		return plan.Leaders(kind, h.ranks, x)
	}), nil
}
