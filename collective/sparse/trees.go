package sparse

import (
	"slices"

	"github.com/treerun/treerun/topo"
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
