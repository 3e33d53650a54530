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
	shapes                  // their number
)

var shapeNames = [shapes]string{"flat", "tree", "trees", "direct", "direct-split"}

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

// fits reports whether kind can run in shape s.
func (s shape) fits(kind plan.Kind) bool {
	switch kind {
	case plan.AllReduce:
		return true
	case plan.Barrier:
		return s == flat || s == oneTree
	case plan.Broadcast:
		return s == oneTree || s == directOne
	case plan.Reduce:
		return s == oneTree || s == directOne || s == directMany
	case plan.AllGather:
		return s == allTrees || s == directOne
	case plan.ReduceScatter:
		return s == allTrees || s == directOne
	case plan.AllToAll:
		return s == directOne || s == directMany
	}
	return s == directOne // Gather, Scatter
}

// reaches reports whether shape s is there for so many ranks: those in which
// every pair has a link per rank are not for many.
func (s shape) reaches(ranks int) bool {
	return ranks <= directRanks || s == oneTree || s == allTrees
}

// laneKey names a lane of the communicator's Layout.
type laneKey struct {
	of   laneKind
	rank int
}

type laneKind uint8

const (
	treeLane   laneKind = iota // of the tree of a root, both ways
	directLane                 // between a rank and everybody else, both ways
	pairsLane                  // between all ranks, for plans of one lane
	pointLane                  // between all ranks, for Send and Recv
)

// lanes gives lanes their numbers, in the order in which they are first named,
// and collects their links.
type lanes struct {
	number map[laneKey]int
	links  []transport.Link
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
