package collective

import (
	"fmt"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// shape is a way to run a collective: which plan, over which lanes.
type shape uint8

const (
	flat       shape = iota // everybody sends all to everybody
	oneTree                 // up and down one balanced reduce tree
	allTrees                // one tree per rank, each with a share
	directOne               // every rank owns a slice; a rank's part of a slice is one track
	directMany              // the same, sending and receiving side by side
	starShape               // everybody sends all to one rank, which hands the result out

	// Those for several hosts.
	leaders         // a rank of every host exchanges with all others what its host has
	leadersDoubling // the same with the hosts at rising distances
	hostsTree       // one tree over hosts, from the root
	hostsDirect     // every host owns a slice, divided among its ranks
	hostsDouble     // a double binary tree over hosts for every carrier
	hostsPacked     // trees over hosts, with shares that fill links and cards

	allShapes           // their number
	shapes    = leaders // the number of those for one host
)

var shapeNames = [allShapes]string{"flat", "tree", "trees", "direct", "direct-split", "star",
	"leaders", "leaders-doubling", "hosts-tree", "hosts-direct", "hosts-double", "hosts-packed"}

func (s shape) String() string { return shapeNames[s] }

// shapeOf returns the shape with a name.
func shapeOf(name string) (shape, bool) {
	for s, n := range shapeNames {
		if n == name {
			return shape(s), true
		}
	}
	return 0, false
}

// fits reports whether kind can run in shape s on one host.
func (s shape) fits(kind plan.Kind) bool {
	if s >= shapes {
		return false
	}
	switch kind {
	case plan.AllReduce:
		return true
	case plan.Barrier:
		return s == flat || s == oneTree || s == starShape
	case plan.Broadcast:
		return s == oneTree || s == directOne
	case plan.Reduce:
		return s == oneTree || s == directOne || s == directMany || s == starShape
	case plan.AllGather:
		return s == allTrees || s == directOne
	case plan.ReduceScatter:
		return s == allTrees || s == directOne
	case plan.AllToAll:
		return s == directOne || s == directMany
	}
	return s == directOne // Gather, Scatter
}

// reaches reports whether shape s is there for so many ranks of one host: those in
// which every pair has a link per rank are not for many.
func (s shape) reaches(ranks int) bool {
	return s < shapes && (ranks <= directRanks || s == oneTree || s == allTrees)
}

// laneKey names a lane of the communicator's Layout.
type laneKey struct {
	of   laneKind
	rank int
}

type laneKind uint8

const (
	treeLane    laneKind = iota // of the tree of a root, both ways
	directLane                  // between a rank and everybody else, both ways
	pairsLane                   // between all ranks, for plans of one lane
	messageLane                 // between all ranks, for Send and Recv
	leadersLane                 // between the leaders of hosts, and inside hosts, for one plan at a time
	hostsLane                   // of trees over hosts: rank counts them
)

// lanes gives lanes their numbers, in the order in which they are first named,
// and collects their links.
type lanes struct {
	number map[laneKey]int
	links  []transport.Link
	joined map[transport.Link]bool // of lanes that are opened link by link
}

// join adds one link to lane k, which is opened when it is first named.
func (l *lanes) join(k laneKey, src, dst int) {
	if l.number == nil {
		l.number = make(map[laneKey]int)
	}
	if l.joined == nil {
		l.joined = make(map[transport.Link]bool)
	}
	i, open := l.number[k]
	if !open {
		i = len(l.number)
		l.number[k] = i
	}
	if link := (transport.Link{Lane: i, Src: src, Dst: dst}); !l.joined[link] {
		l.joined[link] = true
		l.links = append(l.links, link)
	}
}

// open gives lane k a number and links, unless it has them.
func (l *lanes) open(k laneKey, size int, trees []topo.Tree) {
	if _, open := l.number[k]; open {
		return
	}
	if l.number == nil {
		l.number = make(map[laneKey]int)
	}
	i := len(l.number)
	l.number[k] = i
	both := func(a, b int) {
		l.links = append(l.links, transport.Link{Lane: i, Src: a, Dst: b}, transport.Link{Lane: i, Src: b, Dst: a})
	}
	switch k.of {
	case treeLane:
		for v, parent := range trees[k.rank].Parent {
			if parent >= 0 {
				both(v, parent)
			}
		}
	case directLane:
		for v := range size {
			if v != k.rank {
				both(v, k.rank)
			}
		}
	default:
		for v := range size {
			for w := range v {
				both(v, w)
			}
		}
	}
}

// made is a plan with the lanes that it travels on.
type made struct {
	shape   shape
	plan    *plan.Plan
	lanes   []laneKey
	program *exec.Program // nil until the first call
}

// make builds the plan of kind in shape s. root is used by kinds that have one.
func (p *planner) make(kind plan.Kind, root int, s shape) (*made, error) {
	m := &made{shape: s}
	var err error
	switch s {
	case leaders, leadersDoubling, hostsTree, hostsDirect, hostsDouble, hostsPacked:
		m.plan, m.lanes, err = p.hosts.make(kind, root, s)
	case flat:
		m.plan, err = plan.Flat(kind, p.size)
		m.lanes = []laneKey{{of: pairsLane}}
	case oneTree:
		if !kind.HasRoot() {
			root = p.smallRoot
		}
		form := plan.Single
		if kind.HasRoot() {
			form = plan.Split
		}
		m.plan, err = plan.FromTrees(kind, p.trees[root:root+1], nil, plan.Options{Form: form})
		m.lanes = []laneKey{{treeLane, root}}
	case starShape:
		root = max(root, 0)
		m.plan, err = plan.Star(kind, p.size, root)
		m.lanes = []laneKey{{directLane, root}}
		if p.hosts != nil {
			m.lanes = []laneKey{{of: pairsLane}} // that of flat
		}
	case allTrees:
		m.plan, err = p.overTrees(kind)
		m.lanes = perRank(treeLane, p.size)
	default:
		form := plan.Single
		if s == directMany {
			form = plan.Split
		}
		if m.plan, err = plan.Direct(kind, p.size, root, plan.Options{Form: form}); err != nil {
			break
		}
		switch kind {
		case plan.Broadcast:
			m.lanes = []laneKey{{directLane, root}}
		case plan.AllToAll, plan.Gather, plan.Scatter: // no two of their lanes join the same ranks
			for range m.plan.Lanes {
				m.lanes = append(m.lanes, laneKey{of: pairsLane})
			}
		default:
			m.lanes = perRank(directLane, p.size)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s plan in shape %v: %w", kind, s, err)
	}
	if len(m.lanes) != len(m.plan.Lanes) {
		return nil, fmt.Errorf("%s plan %s has %d lanes, want %d", kind, m.plan.Name, len(m.plan.Lanes), len(m.lanes))
	}
	return m, nil
}

// overTrees builds a plan with one lane per tree. Where the message has parts,
// part i takes the tree of rank i.
func (p *planner) overTrees(kind plan.Kind) (*plan.Plan, error) {
	opt := plan.Options{Form: plan.Split}
	if !kind.HasParts() {
		return plan.FromTrees(kind, p.trees, nil, opt)
	}
	var all *plan.Plan
	for i := range p.trees {
		one, err := plan.FromTrees(kind, p.trees[i:i+1], nil, opt)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = one
			all.Name = fmt.Sprintf("trees(%d)", p.size)
			continue
		}
		all.Lanes[i] = one.Lanes[i]
	}
	return all, nil
}

func perRank(of laneKind, size int) []laneKey {
	keys := make([]laneKey, size)
	for r := range keys {
		keys[r] = laneKey{of, r}
	}
	return keys
}
