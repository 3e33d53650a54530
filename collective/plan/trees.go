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
	p, err := ofTrees(kind, trees, "trees(%d)", Kind.spreads)
	if err != nil {
		return nil, err
	}
	switch {
	case len(trees) == 1 && kind.HasParts():
		p.Name = "tree"
	case len(trees) == 1:
		p.Name = fmt.Sprintf("tree(root %d)", trees[0].Root)
	}
	if form == Split && kind.bothWays() {
		p.Name += " split"
	}
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
	p, err := ofTrees(kind, trees, "part trees(%d)", func(k Kind) bool { return k.spreads() && k.HasParts() })
	if err != nil {
		return nil, err
	}
	return p.withTrees(trees, weights, func(t topo.Tree) ([]Track, error) { return treeTracks(kind, t, Single), nil })
}

// ofTrees returns a plan without lanes over the ranks and the root of trees, which it
// checks. name has their number.
func ofTrees(kind Kind, trees []topo.Tree, name string, can func(Kind) bool) (*Plan, error) {
	if len(trees) == 0 {
		return nil, errors.New("plan: no trees")
	}
	root, n := trees[0].Root, len(trees[0].Parent)
	for i, t := range trees {
		if err := t.Validate(n); err != nil {
			return nil, fmt.Errorf("plan: tree %d: %w", i, err)
		}
		if kind.HasRoot() && t.Root != root {
			return nil, fmt.Errorf("plan: tree %d has root %d, tree 0 has %d: a %v needs one root", i, t.Root, root, kind)
		}
	}
	return newPlan(fmt.Sprintf(name, len(trees)), kind, n, root, can)
}

// withTrees gives a plan a lane for every tree, of the part of its root where the message
// has parts, and validates it.
func (p *Plan) withTrees(trees []topo.Tree, weights []float64, build func(topo.Tree) ([]Track, error)) (*Plan, error) {
	for i, t := range trees {
		tracks, err := build(t)
		if err != nil {
			return nil, fmt.Errorf("plan %s: tree %d: %w", p.Name, i, err)
		}
		part := 0
		if p.Kind.HasParts() {
			part = t.Root
		}
		p.Lanes = append(p.Lanes, newLane(part, weights, i, tracks))
	}
	slices.SortStableFunc(p.Lanes, func(a, b Lane) int { return a.Part - b.Part })
	return p, p.Validate()
}

// treeTracks returns the tracks of a lane that adds in any order: there none is refused.
func treeTracks(kind Kind, t topo.Tree, form Form) []Track {
	tracks, _ := newOverTree(kind, t, form).tracks()
	return tracks
}
