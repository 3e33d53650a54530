package plan

import (
	"fmt"

	"github.com/treerun/treerun/topo"
)

// FromPartTrees builds an AllGather or a ReduceScatter in which every part has
// trees of its own: those with the rank whose part it is as their root. A tree
// of the share weights[i] carries that share of its part, over the sum of the
// weights of the part's trees; nil weights are equal. Every rank must be the
// root of one tree at least. A lane goes as FromTrees lets it go.
func FromPartTrees(kind Kind, trees []topo.Tree, weights []float64, opt Options) (*Plan, error) {
	if kind != AllGather && kind != ReduceScatter {
		return nil, fmt.Errorf("plan: cannot build %v from trees of parts: want %v or %v", kind, AllGather, ReduceScatter)
	}
	if len(trees) == 0 {
		return nil, fmt.Errorf("plan: %v from no trees", kind)
	}
	if weights != nil && len(weights) != len(trees) {
		return nil, fmt.Errorf("plan: %d weights for %d trees", len(weights), len(trees))
	}
	p := &Plan{Name: opt.Name, Kind: kind, Size: len(trees[0].Parent), Root: -1}
	if p.Name == "" {
		p.Name = fmt.Sprintf("part trees(%d)", len(trees))
	}
	of := make([][]int, p.Size) // by part: its trees
	for i, t := range trees {
		if err := t.Validate(p.Size); err != nil {
			return nil, fmt.Errorf("plan: tree %d: %w", i, err)
		}
		of[t.Root] = append(of[t.Root], i)
	}
	if len(trees) > MaxLanes {
		return nil, fmt.Errorf("plan %s: %d lanes, want at most %d", p.Name, len(trees), MaxLanes)
	}
	role := Broadcast
	if kind == ReduceScatter {
		role = Reduce
	}
	for part, list := range of {
		if len(list) == 0 {
			return nil, fmt.Errorf("plan: no tree has root %d: %v has a tree for every part at least", part, kind)
		}
		for _, i := range list {
			w := 1.0
			if weights != nil {
				w = weights[i]
			}
			p.Lanes = append(p.Lanes, Lane{Part: part, Weight: w, Tracks: treeTracks(role, trees[i], opt)})
		}
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}
