package collective

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// carried is a tree over all ranks that was made of one over hosts, with its
// share and the number of the lane that it takes in the Layout.
type carried struct {
	tree   topo.Tree
	weight float64
	lane   int
}

// carry returns the trees of a set over all ranks, one per carrier for each. A
// root that is given holds them all: it hands every share to the carrier of its
// host.
func (h *hosts) carry(s treeSet, carriers, root int) []carried {
	var list []carried
	for b, t := range s.trees {
		for c := range carriers {
			all := h.compose(t, func(host int) int { return h.carrier(host, c) })
			if root >= 0 {
				all = all.Reroot(root)
			}
			list = append(list, carried{all, s.weight(b), b*h.most + c})
		}
	}
	return list
}

// carriersOf returns how many trees of a shape a tree over hosts becomes: a small
// message is not divided.
func (h *hosts) carriersOf(s shape) int {
	if s == hostsTree {
		return 1
	}
	return h.carriers
}

func (s *treeSet) weight(i int) float64 {
	if s.weights == nil {
		return 1
	}
	return s.weights[i]
}

// carrier returns the rank that carries the c-th share of a host's trees. On a
// host with fewer ranks some carry several.
func (h *hosts) carrier(host, c int) int {
	ranks := h.ranks[host]
	if len(ranks) <= h.carriers {
		return ranks[c%len(ranks)]
	}
	return ranks[c*len(ranks)/h.carriers]
}

// carryParts returns the trees of the parts of all ranks, in their order: those
// of a rank have its host as their root, and there the rank itself.
func (h *hosts) carryParts(s treeSet) []carried {
	per := s.perRoot(len(h.ranks))
	of := make([][]int, len(h.ranks)) // trees by root
	for i, t := range s.trees {
		of[t.Root] = append(of[t.Root], i)
	}
	var list []carried
	for r := range h.host {
		a, c := h.host[r], h.place[r]
		for b, i := range of[a] {
			t := h.compose(s.trees[i], func(host int) int {
				if host == a {
					return r
				}
				return h.carrier(host, c%h.carriers)
			})
			list = append(list, carried{t, s.weight(i), (a*per+b)*h.most + c})
		}
	}
	return list
}

// compose returns the tree over all ranks in which the carriers of the hosts have
// the hosts' places in t, and the other ranks of a host hang from its carrier.
func (h *hosts) compose(t topo.Tree, carrier func(host int) int) topo.Tree {
	all := topo.Tree{Root: carrier(t.Root), Parent: make([]int, len(h.host))}
	for host := range h.ranks {
		top := carrier(host)
		h.inside(host, top, func(v, parent int) { all.Parent[v] = parent })
		all.Parent[top] = -1
		if up := t.Parent[host]; up >= 0 {
			all.Parent[top] = carrier(up)
		}
	}
	return all
}

// inside visits the ranks of a host but top, from which they hang, with their
// parents.
func (h *hosts) inside(host, top int, visit func(v, parent int)) {
	ranks := h.ranks[host]
	local := topo.Star
	if len(ranks) > directRanks {
		local = tree.Binomial
	}
	for v, p := range local(len(ranks), h.place[top]).Parent {
		if p >= 0 {
			visit(ranks[v], ranks[p])
		}
	}
}

// uses returns the trees over all ranks that a kind takes in shape s. For a kind
// with a root they hang from it.
func (h *hosts) uses(kind plan.Kind, root int, s shape) []carried {
	switch {
	case kind.HasParts():
		return h.carryParts(h.set(setKey{s, ofParts, -1}))
	case kind.HasRoot():
		return h.carry(h.set(setKey{s, oneWay, h.host[root]}), h.carriersOf(s), root)
	}
	return h.carry(h.set(setKey{s, bothWays, -1}), h.carriersOf(s), -1)
}

// open opens the lanes of the offered shapes.
func (h *hosts) open(l *lanes, offered []shape) error {
	o := opener{h: h, lanes: l, inside: make(map[int]bool)}
	for _, s := range offered {
		if s == leaders || s == leadersDoubling {
			p, err := h.leaders(plan.AllReduce, s)
			if err != nil {
				return err
			}
			for _, k := range p.Links() {
				l.join(laneKey{of: leadersLane}, k.Src, k.Dst)
			}
			continue
		}
		if s < shapes {
			continue
		}
		if h.fits(plan.AllReduce, s) {
			o.add(h.set(setKey{s, bothWays, -1}), h.carriersOf(s))
		}
		for a := range h.ranks { // the other sets have the same links for all roots
			if s == hostsTree || s == hostsDirect && h.fits(plan.Broadcast, s) || h.has(setKey{s, oneWay, a}) {
				o.add(h.set(setKey{s, oneWay, a}), h.carriersOf(s))
			}
		}
		if h.fits(plan.AllGather, s) {
			for _, c := range h.uses(plan.AllGather, -1, s) {
				for v, p := range c.tree.Parent {
					o.both(c.lane, v, p)
				}
			}
		}
	}
	return nil
}

// opener opens lanes for trees over hosts.
type opener struct {
	h      *hosts
	lanes  *lanes
	inside map[int]bool // by lane: what joins the ranks of a host is open
}

func (o *opener) both(lane, v, p int) {
	if p >= 0 {
		o.lanes.join(laneKey{hostsLane, lane}, v, p)
		o.lanes.join(laneKey{hostsLane, lane}, p, v)
	}
}

// add opens the lanes that carry gives the trees of s.
func (o *opener) add(s treeSet, carriers int) {
	h := o.h
	for b, t := range s.trees {
		for c := range carriers {
			lane := b*h.most + c
			for host, up := range t.Parent {
				if up >= 0 {
					o.both(lane, h.carrier(host, c), h.carrier(up, c))
				}
				if !o.inside[lane] {
					h.inside(host, h.carrier(host, c), func(v, parent int) { o.both(lane, v, parent) })
				}
			}
			o.inside[lane] = true
		}
	}
}

func (h *hosts) leaders(kind plan.Kind, s shape) (*plan.Plan, error) {
	x := plan.Everybody
	if s == leadersDoubling {
		x = plan.Doubling
	}
	return plan.Leaders(kind, h.ranks, x)
}

// make builds the plan of a kind in a shape of several hosts.
func (h *hosts) make(kind plan.Kind, root int, s shape) (*plan.Plan, []laneKey, error) {
	if s == leaders || s == leadersDoubling {
		p, err := h.leaders(kind, s)
		return p, []laneKey{{of: leadersLane}}, err
	}
	if !kind.HasRoot() {
		root = -1
	}
	all := h.uses(kind, root, s)
	trees := make([]topo.Tree, len(all))
	weights := make([]float64, len(all))
	keys := make([]laneKey, len(all))
	for i, c := range all {
		trees[i], weights[i], keys[i] = c.tree, c.weight, laneKey{hostsLane, c.lane}
	}
	opt := plan.Options{Form: plan.Split, Name: fmt.Sprintf("%v(%d hosts, %d trees)", s, len(h.ranks), len(trees))}
	build := plan.FromTrees
	if kind.HasParts() {
		build = plan.FromPartTrees
	}
	p, err := build(kind, trees, weights, opt)
	return p, keys, err
}
