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
	p, err := emptyPlan(kind, trees, weights, opt)
	if err != nil {
		return nil, err
	}
	if p.Name == "" {
		p.Name = fmt.Sprintf("part trees(%d)", len(trees))
	}
	if len(trees) > MaxLanes {
		return nil, fmt.Errorf("plan %s: %d lanes, want at most %d", p.Name, len(trees), MaxLanes)
	}
	of := make([][]int, p.Size) // by part: its trees
	for i, t := range trees {
		of[t.Root] = append(of[t.Root], i)
	}
	for part, list := range of {
		if len(list) == 0 {
			return nil, fmt.Errorf("plan: no tree has root %d: %v has a tree for every part at least", part, kind)
		}
		for _, i := range list {
			p.Lanes = append(p.Lanes, Lane{Part: part, Weight: weightOf(weights, i), Tracks: treeTracks(kind, trees[i], opt)})
		}
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}
