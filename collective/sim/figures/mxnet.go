package figures

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/machines"
	"github.com/treerun/treerun/topo/tree"
)

// What MXNet's engine hands out for one push and pull of 8 GPUs.
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

func newP3() (*p3, error) {
	all, ok := machines.Get("p3.16xlarge")
	nvlink, ok2 := machines.Get("dgx1v")
	if !ok || !ok2 {
		return nil, fmt.Errorf("figures: no graph of a p3.16xlarge")
	}
	p := &p3{all: all}
	var err error
	fromTrees := func(trees ...topo.Tree) *plan.Plan {
		var made *plan.Plan
		if err == nil {
			made, err = plan.FromTrees(plan.AllReduce, trees, nil, plan.Options{})
		}
		return made
	}
	for root := range all.Ranks {
		star, e := tree.Star(all, root)
		if e != nil {
			return nil, e
		}
		p.servers = append(p.servers, fromTrees(star))
	}
	trees, e := tree.All(nvlink)
	if e != nil {
		return nil, e
	}
	p.tree, p.trees = fromTrees(trees[0]), fromTrees(trees...)
	if err != nil {
		return nil, err
	}
	if p.reduce, err = rings(nvlink, plan.Reduce); err != nil {
		return nil, err
	}
	if p.hand, err = rings(nvlink, plan.Broadcast); err != nil {
		return nil, err
	}
	return p, nil
}

// rings returns a plan over the rings of g, both ways round, as NCCL uses them.
func rings(g *topo.Graph, kind plan.Kind) (*plan.Plan, error) {
	found, err := tree.Rings(g, 8)
	if err != nil {
		return nil, err
	}
	var orders [][]int
	var weights []float64
	for _, r := range found {
		back := make([]int, len(r.Order))
		for i, v := range r.Order {
			back[len(back)-1-i] = v
		}
		orders = append(orders, r.Order, back)
		weights = append(weights, r.GBytesPerSecond, r.GBytesPerSecond)
	}
	return plan.FromRings(kind, orders, weights, 0, plan.Options{})
}

// way is one of MXNet's ways to push and pull a key.
type way struct {
	name    string
	machine sim.Machine
	ops     func(key int) []*plan.Plan // in order
}

func (p *p3) ways() []way {
	return []way{
		{"tree", sim.MXNet(treeOps), func(int) []*plan.Plan { return []*plan.Plan{p.tree} }},
		{"parameter server", sim.MXNet(serverOps), func(key int) []*plan.Plan { return p.servers[key%8 : key%8+1] }},
		{"nccl ring", sim.MXNetNCCL(), func(int) []*plan.Plan { return []*plan.Plan{p.reduce, p.hand} }},
		{"multi-tree", sim.MXNet(multiTreeOps), func(int) []*plan.Plan { return []*plan.Plan{p.trees} }},
	}
}

// curve prices count push-pulls of keys of rising size, in floats.
func (p *p3) curve(w way, count int, floats []int64) (Series, error) {
	s := Series{Name: w.name}
	for _, n := range floats {
		var ops []sim.Operation
		for key := range count {
			for _, made := range w.ops(key) {
				ops = append(ops, sim.Operation{Plan: made, Bytes: 4 * n})
			}
		}
		r, err := sim.Run(ops, p.all, w.machine)
		if err != nil {
			return Series{}, fmt.Errorf("figures: %s, %d floats: %w", w.name, n, err)
		}
		s.Points = append(s.Points, Point{float64(n), r.Us / 1e3})
	}
	return s, nil
}

func (p *p3) figure(f Figure, count int, floats []int64, names ...string) (Figure, error) {
	f.XLabel, f.XUnit, f.YLabel = "key size (float32)", "floats", "time (ms)"
	for _, name := range names {
		for _, w := range p.ways() {
			if w.name != name {
				continue
			}
			s, err := p.curve(w, count, floats)
			if err != nil {
				return Figure{}, err
			}
			f.Series = append(f.Series, s)
		}
	}
	f.Crossings = crossings(f.Series)
	f.Notes = append(f.Notes, "Rates of 50, 25 and 10 GB/s are the proposal's; the rest are round figures for CUDA and MXNet's engine in 2018, see sim.MXNet.")
	return f, nil
}

func powers(from, upTo int64) []int64 {
	var all []int64
	for n := from; n <= upTo; n *= 2 {
		all = append(all, n)
	}
	return all
}

// PushPull returns the shape of figure 2 of MXNet's proposal, with the tree
// beside what it was to replace: so many push-pulls before one wait.
func PushPull(count int) (Figure, error) {
	p, err := newP3()
	if err != nil {
		return Figure{}, err
	}
	upTo := int64(64 << 20)
	if count > 1 {
		upTo = 16 << 20
	}
	f, err := p.figure(Figure{
		Name:  fmt.Sprintf("push-pull-%d", count),
		Title: pushPulls(count) + " before a wait on a p3.16xlarge",
		Notes: []string{
			"Figure 2 of the proposal, with the tree, which that figure does not have, beside NCCL's ring and the parameter server.",
			"The proposal gives no size at which the curves cross. It says that networks with over 157 push-pulls on keys of at most 2M floats are faster with the parameter server; most keys of such a network are far smaller than 2M.",
		},
	}, count, powers(1<<10, upTo), "tree", "nccl ring", "parameter server")
	if err != nil {
		return Figure{}, err
	}
	f.Claims = f.pushPullClaims(count)
	return f, nil
}

// ArrayBound returns the shape of figure 7 of MXNet's proposal: from which key
// size on one tree per GPU is quicker than a single one.
func ArrayBound(count int) (Figure, error) {
	p, err := newP3()
	if err != nil {
		return Figure{}, err
	}
	f, err := p.figure(Figure{
		Name:  fmt.Sprintf("array-bound-%d", count),
		Title: fmt.Sprintf("One tree against eight, %s on a p3.16xlarge", pushPulls(count)),
		Notes: []string{"Figure 7 of the proposal, parts b and c: so many push-pulls before a wait. Part a, the time of VGG-16 by the bound, is not simulated: that takes the network. MXNet's default bound is 10M floats."},
	}, count, powers(64<<10, 16<<20), "tree", "multi-tree")
	if err != nil {
		return Figure{}, err
	}
	f.Claims = f.arrayBoundClaims(count)
	return f, nil
}
