package drive

import (
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/transport"
)

// Merge runs the merge of sorted block streams along trees.
type Merge struct {
	Trees
	nodes []*merge.Node
}

// NewMerge makes the exchanges of a rank on these trees of its Links.
func NewMerge(k *Links, trees []int) *Merge {
	m := &Merge{Trees: Trees{links: k, streams: true}}
	for _, t := range trees {
		e := &k.trees[t]
		m.nodes = append(m.nodes, merge.NewNode(len(e.children), e.parent < 0))
		m.add(e, m.nodes[len(m.nodes)-1])
	}
	return m
}

// Begin starts the next tensor. job says what tree t carries.
func (m *Merge) Begin(head transport.Header, job func(t int) merge.Job) error {
	var j merge.Job
	for t, n := range m.nodes {
		j = job(t)
		if err := n.Begin(j); err != nil {
			return err
		}
	}
	return m.begin(head, j.Grid, j.Finder)
}
