package collective

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/pack"
)

// NetworkLimit returns the most, in GB/s of message, that any plan of this kind
// could reach on the network between the hosts as it was measured: the
// tree-packing bound for AllReduce, the least cut for a Broadcast or Reduce with
// this root. It returns 0 where there is no such limit: all ranks are on one
// host, or the kind has none that is known. Messages are those of Choice.
func (c *Comm) NetworkLimit(kind plan.Kind, root int) float64 {
	h := c.plans.hosts
	if h == nil || len(h.ranks) > packedHosts {
		return 0
	}
	var bound pack.Bound
	var err error
	switch kind {
	case plan.AllReduce:
		bound, err = pack.TreeBound(h.between)
	case plan.Broadcast, plan.Reduce:
		bound, err = pack.BroadcastBound(h.between, h.host[root])
	case plan.AllGather, plan.ReduceScatter:
		if h.most*len(h.ranks) != c.size {
			return 0 // hosts with parts of different size
		}
		bound, err = pack.PartsBound(h.between)
	default:
		return 0
	}
	if err != nil {
		return 0
	}
	return bound.Rate
}
