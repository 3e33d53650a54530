package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Form is how the way up and the way down of an AllReduce share a rank.
type Form uint8

// The forms. Kinds that go one way only are the same in both.
const (
	Single Form = iota // one track: no switching between tracks; for small messages
	Split              // two tracks on every rank but the root: chunks flow both ways at once; for many chunks
)

// FromTrees builds the collective kind over trees, one lane each, with the
// share weights[i] of the message on trees[i]; nil weights are equal. All
// trees span the same ranks; for Reduce and Broadcast they have the same root.
// For AllGather and ReduceScatter every tree has a lane per part, in which it
// hangs from the rank whose part it is: the root it comes with does not matter.
//
// Upwards a rank reduces its children in the order of topo.Tree.Children, the
// last one straight into the window of its parent. Downwards it serves them in
// the reverse order: the deepest subtree first.
func FromTrees(kind Kind, trees []topo.Tree, weights []float64, form Form) (*Plan, error) {
	if !kind.spreads() {
		return nil, fmt.Errorf("plan: cannot build %v from trees", kind)
	}
	if err := checkTrees(trees); err != nil {
		return nil, err
	}
	root := trees[0].Root
	for i, t := range trees {
		if kind.HasRoot() && t.Root != root {
			return nil, fmt.Errorf("plan: tree %d has root %d, tree 0 has %d: a %v needs one root", i, t.Root, root, kind)
		}
	}
	p := newPlan(treesName(kind, trees, form), kind, len(trees[0].Parent), root)
	return p.withLanes(len(trees), weights, func(i, part int) []Track {
		t := trees[i]
		if kind.HasParts() {
			t = t.Reroot(part)
		}
		return treeTracks(kind, t, form)
	})
}

// FromPartTrees builds an AllGather or a ReduceScatter in which every part has
// trees of its own: those with the rank whose part it is as their root. A tree
// of the share weights[i] carries that share of its part, over the sum of the
// weights of the part's trees; nil weights are equal. Every rank must be the
// root of one tree at least. A lane goes as FromTrees lets it go.
func FromPartTrees(kind Kind, trees []topo.Tree, weights []float64) (*Plan, error) {
	if kind != AllGather && kind != ReduceScatter {
		return nil, fmt.Errorf("plan: cannot build %v from trees of parts: want %v or %v", kind, AllGather, ReduceScatter)
	}
	if err := checkTrees(trees); err != nil {
		return nil, err
	}
	p := newPlan(fmt.Sprintf("part trees(%d)", len(trees)), kind, len(trees[0].Parent), -1)
	if err := p.checkLanes(len(trees), weights); err != nil {
		return nil, err
	}
	for i, t := range trees {
		p.Lanes = append(p.Lanes, newLane(t.Root, weights, i, treeTracks(kind, t, Single)))
	}
	slices.SortStableFunc(p.Lanes, func(a, b Lane) int { return a.Part - b.Part })
	return p.validated()
}

// checkTrees checks that there are trees, and all of the same ranks.
func checkTrees(trees []topo.Tree) error {
	if len(trees) == 0 {
		return errors.New("plan: no trees")
	}
	for i, t := range trees {
		if err := t.Validate(len(trees[0].Parent)); err != nil {
			return fmt.Errorf("plan: tree %d: %w", i, err)
		}
	}
	return nil
}

func treesName(kind Kind, trees []topo.Tree, form Form) string {
	name := fmt.Sprintf("trees(%d)", len(trees))
	if len(trees) == 1 && kind.HasParts() {
		name = "tree"
	} else if len(trees) == 1 {
		name = fmt.Sprintf("tree(root %d)", trees[0].Root)
	}
	if form == Split && kind.bothWays() {
		name += " split"
	}
	return name
}

// treeTracks returns the tracks of one lane, by rank, the way up before the
// way down. A part goes down from its root, or up to it.
func treeTracks(kind Kind, t topo.Tree, form Form) []Track {
	n := len(t.Parent)
	if n == 1 {
		return []Track{{Rank: 0, Steps: []Step{copyStep()}}}
	}
	children := t.Children()
	var tracks []Track
	for v := range n {
		node := treeNode{rank: v, parent: int32(t.Parent[v]), children: children[v]}
		switch {
		case kind == Reduce || kind == ReduceScatter:
			acc := Tmp
			if v == t.Root {
				acc = Out
			}
			tracks = append(tracks, Track{v, node.up(acc)})
		case kind == Broadcast || kind == AllGather:
			tracks = append(tracks, Track{v, node.down(In)})
		case v == t.Root:
			tracks = append(tracks, Track{v, node.turn()})
		default:
			tracks = appendTracks(tracks, v, form, node.up(Out), node.down(None))
		}
	}
	return tracks
}

// treeNode is one rank's place in a tree of at least two ranks.
type treeNode struct {
	rank     int
	parent   int32 // -1 at the root
	children []int // in the order in which they are reduced
}

// up gathers the children into acc and hands the sum to the parent; at the
// root it stays in acc.
func (v treeNode) up(acc Buf) []Step {
	if len(v.children) == 0 {
		return []Step{sendStep(In, v.parent)}
	}
	steps := v.gather(acc)
	if v.parent >= 0 {
		last := &steps[len(steps)-1]
		*last = Step{Op: RecvReduceSend, Src: last.Src, From: last.From, To: v.parent}
	}
	return steps
}

// gather reduces every child into acc: the first onto In, the rest onto acc.
func (v treeNode) gather(acc Buf) []Step {
	var steps []Step
	src := In
	for _, c := range v.children {
		steps = append(steps, Step{Op: RecvReduce, Src: src, Dst: acc, From: int32(c), To: -1})
		src = acc
	}
	return steps
}

// turn is the root of an AllReduce: the last child's chunk completes the sum,
// which leaves for the same child at once, then for the others.
func (v treeNode) turn() []Step {
	steps := v.gather(Out)
	last := &steps[len(steps)-1]
	*last = Step{Op: RecvReduceCopySend, Src: last.Src, Dst: Out, From: last.From, To: last.From}
	return append(steps, serve(Out, v.children[:len(v.children)-1])...)
}

// down takes the result from the parent and hands it on. At the root, which
// has no parent, it comes from the buffer root.
func (v treeNode) down(root Buf) []Step {
	k := len(v.children)
	switch {
	case v.parent < 0:
		return append(serve(root, v.children), copyStep())
	case k == 0:
		return []Step{recvStep(Out, v.parent)}
	}
	first := Step{Op: RecvCopySend, Dst: Out, From: v.parent, To: int32(v.children[k-1])}
	return append([]Step{first}, serve(Out, v.children[:k-1])...)
}

// serve sends src to children, the last of them first.
func serve(src Buf, children []int) (steps []Step) {
	for _, c := range slices.Backward(children) {
		steps = append(steps, sendStep(src, int32(c)))
	}
	return steps
}
