package drive

import (
	"github.com/treerun/treerun/collective/sparse/internal/omni"
	"github.com/treerun/treerun/transport"
)

// Omni runs Algorithm 1 along stars of workers around aggregators.
type Omni struct {
	Trees
	worker *omni.Worker // nil: this rank only aggregates
	nodes  []*omni.Node // by aggregator
}

// NewOmni makes the exchanges of a rank. stars are the trees of its Links whose roots are the
// aggregators; workers has the number of every rank among the workers, -1: it is none.
func NewOmni(k *Links, stars, workers []int) *Omni {
	o := &Omni{Trees: Trees{links: k}}
	if w := workers[k.rank]; w >= 0 {
		o.worker = omni.NewWorker(w)
	}
	for a, t := range stars {
		e := &k.trees[t]
		var agg *omni.Aggregator
		var children []int
		if e.root == k.rank {
			agg = omni.NewAggregator(a)
			for _, c := range e.children {
				children = append(children, workers[c.rank])
			}
		}
		o.nodes = append(o.nodes, omni.NewNode(o.worker, agg, children))
		if agg != nil || o.worker != nil {
			o.add(e, o.nodes[a])
		}
	}
	return o
}

// Begin starts the next tensor, which has the same number on all ranks. A rank that only
// aggregates has no use for in.
func (o *Omni) Begin(head transport.Header, tensor uint32, s omni.Shape, in omni.Input) error {
	if o.worker != nil {
		if err := o.worker.Begin(tensor, s, in); err != nil {
			return err
		}
	}
	for a, n := range o.nodes {
		if err := n.Begin(a, tensor, s); err != nil {
			return err
		}
	}
	return o.begin(head, s.Grid, nil)
}

// Worker returns what this rank has given to aggregators on other ranks.
func (o *Omni) Worker() (blocks, bytes int64) {
	for i := range o.trees {
		if t := &o.trees[i]; t.parent >= 0 {
			c := t.node.Counts()
			blocks, bytes = blocks+int64(c.SentBlocks), bytes+int64(c.SentBytes)
		}
	}
	return blocks, bytes
}
