package sparse

import (
	"slices"

	"github.com/treerun/treerun/collective/sparse/forest"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// takeTrees takes the trees of the communicator, each once: the chunks of two that are
// the same would go over the same links.
func (s *state) takeTrees() {
	for i, t := range s.c.Trees {
		same := slices.IndexFunc(s.trees, func(o topo.Tree) bool { return slices.Equal(o.Parent, t.Parent) })
		if same >= 0 {
			s.shares[same] += s.c.Shares[i]
			continue
		}
		s.trees, s.shares = append(s.trees, t), append(s.shares, s.c.Shares[i])
		s.merged = append(s.merged, s.lanes.Add(t))
	}
}

// plan is what the Trees form does over the links of a layout.
func (s *state) plan(layout *transport.Layout) *forest.Plan {
	p := &forest.Plan{Size: layout.Size, Shares: s.shares, Slots: layout.Slots}
	for _, k := range layout.Links {
		p.Links = append(p.Links, forest.Link(k))
	}
	for i, t := range s.trees {
		up, down := s.lanes.Of(s.merged[i])
		p.Trees = append(p.Trees, forest.Tree{Parent: t.Parent, Up: up, Down: down})
	}
	return p
}
