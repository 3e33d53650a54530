package plan

import "github.com/treerun/treerun/topo"

// Ordered builds a reduction over trees, one lane each with its share, such that every
// element is added in one order, whatever its lane: the ranks of a host in their order,
// then the hosts in theirs. VerifyStable proves it. kind is AllReduce, Barrier, Reduce or
// ReduceScatter, where every tree carries a share of the part of its root. A rank that
// has what the order does not let it add passes values on one by one. In the form Split
// the sum is made where that happens least often, and goes from there to the root, or to
// all; in Single the root makes it if it can.
//
// The error says so where no rank can make the sum of a tree: the inputs of a host come
// to it in pieces, and there is no place for their sum.
func Ordered(kind Kind, trees []topo.Tree, weights []float64, hosts [][]int, form Form) (*Plan, error) {
	p, err := ofTrees(kind, trees, "trees(%d) stable", Kind.adds)
	if err == nil {
		err = checkHosts(hosts, p.Size)
	}
	if err != nil {
		return nil, err
	}
	return p.withTrees(trees, weights, func(t topo.Tree) ([]Track, error) { return orderedTracks(kind, t, hosts, form) })
}

// orderedTracks returns the tracks of a lane over t in which the sum is made at the rank
// where the fewest values travel, or at the root.
func orderedTracks(kind Kind, t topo.Tree, hosts [][]int, form Form) (best []Track, err error) {
	least := 0
	for d := 0; d < len(t.Parent) && (best == nil || form == Split); d++ {
		top := (t.Root + d) % len(t.Parent)
		l := newOverTree(kind, t.Reroot(top), form)
		l.hosts = hosts
		for v := top; v != t.Root && !kind.bothWays(); v = t.Parent[v] {
			l.path = append(l.path, t.Parent[v])
		}
		tracks, failed := l.tracks()
		if failed != nil {
			err = failed
		} else if n := l.values(); best == nil || n < least {
			best, least = tracks, n
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}
