package device

import (
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// shapes returns plans of every kind that devices run, in several shapes.
func shapes(t *testing.T, n int) []*plan.Plan {
	t.Helper()
	var all []*plan.Plan
	add := func(p *plan.Plan, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	trees := make([]topo.Tree, n)
	order := make([]int, n)
	for r := range trees {
		trees[r], order[r] = tree.Binomial(n, r), r
	}
	root := n / 2
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather,
		plan.ReduceScatter} {
		base := root
		if !kind.HasRoot() {
			base = -1
		}
		for _, form := range []plan.Form{plan.Single, plan.Split} {
			some := trees
			if kind.HasRoot() {
				some = trees[root : root+1]
			}
			add(plan.FromTrees(kind, some, nil, form))
			add(plan.Direct(kind, n, base, form))
			if kind == plan.Broadcast || kind == plan.AllGather {
				continue // adds nothing
			}
			add(plan.DirectHosts(kind, [][]int{order}, base, form))
			if n > 2 {
				add(plan.DirectHosts(kind, [][]int{order[:1], order[1 : n-1], order[n-1:]}, base, form))
			}
		}
		add(plan.FromRings(kind, [][]int{order}, nil, max(base, 0)))
		if !kind.HasRoot() && !kind.HasParts() {
			add(plan.Leaders(kind, plan.Alone(n), plan.Everybody))
		}
		if !kind.HasParts() && kind != plan.Broadcast {
			add(plan.Star(kind, n, root))
		}
	}
	if n > 2 {
		add(plan.FromTrees(plan.Reduce, relays(n, root), nil, plan.Single))
	}
	add(plan.FromTrees(plan.AllReduce, trees[:1], nil, plan.Split))
	add(plan.Direct(plan.AllToAll, n, -1, plan.Single))
	add(plan.Direct(plan.AllToAll, n, -1, plan.Split))
	two, err := plan.Direct(plan.AllToAll, n, -1, plan.Single)
	two.Lanes = append(two.Lanes, two.Lanes[0]) // as one that is given may be
	add(two, err)
	for root := range n {
		add(plan.Direct(plan.Gather, n, root, plan.Single))
		add(plan.Direct(plan.Scatter, n, root, plan.Single))
	}
	return all
}

// relays returns a tree for every rank but the root, which all others are children of: it adds their inputs for the
// root.
func relays(n, root int) (list []topo.Tree) {
	for via := range n {
		if via != root {
			t := topo.Star(n, via)
			t.Root, t.Parent[root], t.Parent[via] = root, -1, root
			list = append(list, t)
		}
	}
	return list
}

// The root of a Reduce adds the values that arrive over all trees, and its own, in one launch for a chunk of each; a
// rank that adds for it has one launch for the values that it sends to the others, and one for its sum.
func TestFinalsShareALaunch(t *testing.T) {
	const n, root = 8, 3
	p, err := plan.FromTrees(plan.Reduce, relays(n, root), nil, plan.Single)
	if err != nil {
		t.Fatal(err)
	}
	for r := range n {
		l, err := NewLayout(Shape{Plans: []*plan.Plan{p}, Slots: 4, SlotBytes: 4096,
			Location: func(src, dst int) Location { return InDevice }}, r)
		if err != nil {
			t.Fatal(err)
		}
		want := 2
		if r == root {
			want = 1
		}
		if got := len(l.plans[0].batches); got != want {
			t.Errorf("rank %d: %d launches for a chunk of every tree, want %d", r, got, want)
		}
	}
}
