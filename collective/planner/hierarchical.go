package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// hierarchical joins trees inside every host by trees between hosts. On every host one rank after the other is the
// leader of a tree: its share of the message is reduced to it and handed out from it, so that all ranks, and all their
// cards, work at once. Where every host has one rank, the candidates have the name of the algorithm between hosts.
func hierarchical(q *query) ([]*Candidate, error) {
	h := q.site.hosts
	switch {
	case h == nil:
		return nil, reasonf("all ranks are on one host")
	case h.alone() && strings.HasPrefix(q.site.options.Algorithm, "hierarchical") && !q.ignoreRequest:
		return nil, reasonf("every host has one rank: name the algorithm between hosts, one of %s",
			strings.Join(betweens, ", "))
	}
	var list []*Candidate
	var without []error
	for _, in := range insidesTried(q) {
		for _, between := range betweens {
			more, err := newPair(q, in, between).candidates()
			if err != nil {
				without = append(without, fmt.Errorf("%s/%s: %w", in.name, between, err))
			}
			list = append(list, more...)
		}
	}
	if len(list) == 0 {
		return nil, reason(strings.ReplaceAll(errors.Join(without...).Error(), "\n", "; "))
	}
	return list, nil
}

// checkHierarchy reports an unknown algorithm in the variant of a hierarchical one.
func checkHierarchy(variant string) error {
	pair, variant, _ := strings.Cut(variant, ":")
	in, between, ok := strings.Cut(pair, "/")
	if ok && slices.Contains(insideNames(), in) && slices.Contains(betweens, between) &&
		slices.Contains([]string{"", variantOne, variantAll}, variant) {
		return nil
	}
	return fmt.Errorf("unknown algorithm %q: want hierarchical:INSIDE/BETWEEN, with %s inside hosts and "+
		"%s between them", "hierarchical:"+pair, strings.Join(insideNames(), ", "), strings.Join(betweens, ", "))
}

// inside is an algorithm inside hosts in the name of a hierarchical algorithm.
type inside struct {
	name  string
	trees rootedTrees
	few   bool // it is tried on up to jointRanks ranks of a host without a request
}

var insides = []inside{
	{"star", stars, false},
	{"multi", multiTrees, true},
	{"kl", klTrees, false},
	{"exact", exactTrees, true},
	{"packing", packedInTurn, false},
}

func insideNames() []string { return namesOf(insides, func(in inside) string { return in.name }) }

// insidesTried returns the algorithms inside hosts that are tried: stars, and where links of some host differ those
// that look for good trees; on devices for few ranks, as packing over all ranks is faster.
func insidesTried(q *query) (list []inside) {
	pair, requested := strings.CutPrefix(q.site.options.Algorithm, "hierarchical:")
	name, _, _ := strings.Cut(pair, "/")
	requested = requested && !q.ignoreRequest
	for _, in := range insides {
		switch h := q.site.hosts; {
		case requested && in.name != name:
		case !requested && !h.rough && in.name != "star":
		case !requested && h.most > jointRanks && (in.few || q.site.machine.Device && in.name != "star"):
		default:
			list = append(list, in)
		}
	}
	return list
}

// local returns the tree of a host that is rooted at one of its ranks, by places.
type local func(host, root int) topo.Tree

// pair is an algorithm inside hosts and one between them. The query has the name of both.
type pair struct {
	q         query
	hosts     *hosts
	inside    inside
	between   string
	requested bool
}

func newPair(q *query, in inside, between string) *pair {
	x := &pair{q: *q, hosts: q.site.hosts, inside: in, between: between}
	x.q.algorithm = "hierarchical:" + in.name + "/" + between
	x.requested = q.requests("hierarchical") && strings.Contains(q.site.options.Algorithm, "/")
	if x.hosts.alone() {
		x.q.algorithm, x.requested = between, q.requests(between)
	}
	return x
}

func (x *pair) candidates() ([]*Candidate, error) {
	switch ordered := x.q.ordered(); {
	case x.between == "flat" || x.between == "doubling" && !ordered:
		return x.leaders()
	case ordered && x.inside.name == "star" && x.between == "direct":
		return x.directInOrder()
	case ordered:
		return nil, unordered()
	}
	return x.overHosts()
}

// overHosts makes the candidates of trees inside hosts and trees between them.
func (x *pair) overHosts() ([]*Candidate, error) {
	q, leaders := &x.q, x.hosts.leaders()
	if q.kind == plan.Barrier && (x.between != "star" || q.site.disconnected == nil) {
		return nil, reasonf("a barrier carries no data")
	}
	trees, err := x.treesBetween()
	if err != nil {
		return nil, err
	}
	within, err := x.treesWithin()
	if err != nil {
		return nil, err
	}
	if x.between == "star" { // a small message between hosts is not divided
		leaders = 1
	}
	c := q.candidate()
	weights, err := x.hosts.overLeaders(&c, trees, within, leaders)
	if err != nil {
		return nil, err
	}
	if trees.Note != "" {
		c.Notes = append(c.Notes, trees.Note)
	}
	list, err := q.ofChannels(c, weights)
	if q.kind != plan.Barrier { // small messages have algorithms of their own between hosts
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

// overLeaders gives a candidate its trees over all ranks, and returns their weights: for each
// tree over hosts one per leader. A root that is given holds them all: it hands every share to
// the leader of its host. Where the message has parts, those of a rank, in the order of ranks,
// are over the trees that have its host as their root, and there the rank itself is it.
func (h *hosts) overLeaders(c *Candidate, f *TreeSet, within local, leaders int) (weights []float64, err error) {
	add := func(i int, t topo.Tree, leader func(host int) int) {
		all, failed := h.compose(t, within, leader)
		if failed == nil && c.Root >= 0 {
			all = all.Reroot(c.Root)
		}
		c.Channels = append(c.Channels, Channel{Tree: all, OfPart: c.Kind.HasParts()})
		weights, err = append(weights, f.weight(i)), cmp.Or(err, failed)
	}
	if !c.Kind.HasParts() {
		for i, t := range f.Trees {
			if c.Root >= 0 {
				t = t.Reroot(h.host[c.Root])
			}
			for k := range leaders {
				add(i, t, func(host int) int { return h.leader(host, k) })
			}
		}
		return weights, err
	}
	for r, at := range h.host {
		leader := func(host int) int {
			if host == at {
				return r
			}
			return h.leader(host, h.place[r]%h.leaders())
		}
		for i, t := range f.Trees {
			if t.Root == at {
				add(i, t, leader)
			}
		}
	}
	return weights, err
}

// treesWithin returns the trees inside hosts.
func (x *pair) treesWithin() (local, error) {
	if x.inside.name == "star" && !x.q.ordered() {
		ranks := x.hosts.ranks
		return func(host, root int) topo.Tree { return shallow(len(ranks[host]), root, directRanks) }, nil
	}
	var sets []*TreeSet
	for i, ranks := range x.hosts.ranks {
		key := fmt.Sprintf("%s inside host %d", x.inside.name, x.hosts.first[i])
		f, err := x.q.found.ofRoots(key, len(ranks), func() (*TreeSet, error) {
			g := x.hosts.inside[i]
			if err := g.Validate(); err != nil {
				return nil, err
			}
			trees, err := x.inside.trees(x.q.site, g)
			return &TreeSet{Trees: trees}, err
		})
		if err != nil {
			return nil, fmt.Errorf("inside host %d: %w", i, err)
		}
		sets = append(sets, f)
	}
	return func(host, root int) topo.Tree { return sets[host].Trees[root] }, nil
}

// leaders makes the plan in which one rank of every host reduces the inputs of the host, and the leaders exchange the
// results: all to all, or at rising distances.
func (x *pair) leaders() ([]*Candidate, error) {
	q, h, s := &x.q, x.hosts, x.q.site
	n, size := len(h.ranks), len(h.host)
	switch {
	case q.kind != plan.AllReduce && q.kind != plan.Barrier:
		return nil, reasonf("for allreduce and barrier")
	case x.inside.name != "star":
		return nil, reasonf("its leaders are the centers of stars")
	case s.disconnected != nil:
		return nil, s.disconnected
	case h.alone() && x.between == "flat" && size <= directRanks:
		return nil, reasonf("is flat itself")
	case x.between == "flat" && n > directHosts && !x.requested || n > PairRanks:
		return nil, reasonf("up to %d hosts", directHosts)
	case x.between == "doubling" && n <= 2 && !x.requested:
		return nil, reasonf("two hosts are at one distance")
	}
	stars := topo.Tree{Parent: slices.Repeat([]int{-1}, size)}
	for _, ranks := range h.ranks {
		for _, r := range ranks[1:] {
			stars.Parent[r] = ranks[0]
		}
	}
	if err := s.routable([]Channel{{Tree: stars}}); err != nil {
		return nil, err
	}
	exchange := plan.Everybody
	if x.between == "doubling" {
		exchange = plan.Doubling
	}
	return q.fixed(func() (*plan.Plan, error) { return plan.Leaders(q.kind, h.ranks, exchange) }), nil
}
