package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// The operations that MXNet's engine hands out for one push and pull of 8 GPUs.
const (
	serverOps    = 7 + 1 + 7 // copies in, one sum, copies out
	treeOps      = 7 + 7 + 7 // a copy and a sum on every link, then a copy
	multiTreeOps = 8 * treeOps
)

// p3 is a p3.16xlarge with the plans that MXNet runs there.
type p3 struct {
	all     *topo.Graph  // with PCIe
	servers []*plan.Plan // by root
	tree    *plan.Plan   // one tree, from GPU 0
	trees   *plan.Plan   // one tree from every GPU, equal slices
	reduce  *plan.Plan   // NCCL's rings
	hand    *plan.Plan
}

func newP3(t testing.TB) *p3 {
	t.Helper()
	all, ok := topo.Machine("p3.16xlarge")
	nvlink, ok2 := topo.Machine("dgx1v")
	if !ok || !ok2 {
		t.Fatal("no graph of a p3.16xlarge")
	}
	p := &p3{all: all, reduce: rings(t, nvlink, plan.Reduce), hand: rings(t, nvlink, plan.Broadcast)}
	for root := range all.Ranks {
		star := tree.Star(all, root)
		p.servers = append(p.servers, mustTrees(t, plan.AllReduce, plan.Single, star))
	}
	trees := tree.All(nvlink)
	p.tree, p.trees = mustTrees(t, plan.AllReduce, plan.Single, trees[0]), mustTrees(t, plan.AllReduce,
		plan.Single, trees...)
	return p
}

// rings returns a plan over the rings of g, as NCCL uses them.
func rings(t testing.TB, g *topo.Graph, kind plan.Kind) *plan.Plan {
	t.Helper()
	found, rates, err := tree.Rings(g, 16)
	if err != nil {
		t.Fatal(err)
	}
	var orders [][]int
	for _, r := range found {
		order, err := tree.PathOf(r)
		if err != nil {
			t.Fatal(err)
		}
		orders = append(orders, order)
	}
	p, err := plan.FromRings(kind, orders, rates, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// way is one of MXNet's ways to push and pull a key.
type way struct {
	name    string
	machine Paper
	ops     func(key int) []*plan.Plan // in order
}

func (p *p3) way(name string) way {
	all := []way{
		{"tree", MXNet(treeOps), func(int) []*plan.Plan { return []*plan.Plan{p.tree} }},
		{"parameter server", MXNet(serverOps), func(key int) []*plan.Plan { return p.servers[key%8 : key%8+1] }},
		{"nccl ring", MXNetNCCL(), func(int) []*plan.Plan { return []*plan.Plan{p.reduce, p.hand} }},
		{"multi-tree", MXNet(multiTreeOps), func(int) []*plan.Plan { return []*plan.Plan{p.trees} }},
	}
	return all[slices.IndexFunc(all, func(w way) bool { return w.name == name })]
}

// pushPulls prices count push-pulls of keys of rising size, in floats, in every way that
// is named.
func pushPulls(count int, floats []int64, names ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		p := newP3(t)
		var b strings.Builder
		b.WriteString("floats\t" + strings.Join(names, "\t") + "\n")
		for _, n := range floats {
			fmt.Fprint(&b, n)
			for _, name := range names {
				w := p.way(name)
				var ops []Operation
				for key := range count {
					for _, made := range w.ops(key) {
						ops = append(ops, Operation{Plan: made, Bytes: 4 * n, AtUs: float64(len(ops)) * w.machine.IssueUs})
					}
				}
				r, err := Run(ops, p.all, w.machine)
				if err != nil {
					t.Fatalf("%s, %d floats: %v", name, n, err)
				}
				fmt.Fprintf(&b, "\t%.6g", r.Us/1e3)
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
}

func powers(from, upTo int64) []int64 {
	var all []int64
	for n := from; n <= upTo; n *= 2 {
		all = append(all, n)
	}
	return all
}
