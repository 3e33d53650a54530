package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// candidate is what an algorithm made of a graph, before the size of a message
// is known.
type candidate struct {
	algorithm string
	strands   []strand
	notes     []string
}

// algorithm makes a candidate. Where weights is nil the strands get equal
// rates.
type algorithm struct {
	name  string
	most  int // ranks up to which auto tries it
	hosts int // and where there are several hosts, which hierarchical plans for
	build func(r *request) (strands []strand, weights []float64, notes []string, err error)
}

// algorithms are in the order in which auto decides between equal times.
var algorithms = []algorithm{
	{"packing", pack.MaxRanks, 128, packing},
	{"multi", 64, 32, multi},
	{"kl", 256, 64, kl},
	{"exact", 10, 10, exact},
	{"double-binary", topo.MaxRanks, topo.MaxRanks, doubleBinary},
	{"hierarchical", 1024, 1024, hierarchical},
	{"ring", 64, 64, ring},
	{"chain", 1024, 64, chain},
	{"star", 1024, 64, star},
}

func algorithmNames() []string {
	names := []string{"auto"}
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

// candidates returns what the request asks for: one candidate, or with auto all
// that this graph has.
func (r *request) candidates() ([]candidate, error) {
	var list []candidate
	var failed []error
	m := newMeter(r.g)
	r.meter, r.untried, r.pricer = m, nil, nil
	for i := range algorithms {
		a := &algorithms[i]
		if !r.wants(a) {
			continue
		}
		strands, weights, notes, err := a.build(r)
		if err != nil && r.algorithm == "auto" {
			failed = append(failed, err) // no ring, for example: it is not among the choices then
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", a.name, title(r.g), err)
		}
		if r.g.Ranks == 1 {
			strands, weights = strands[:1], nil // more would be the same again
		}
		if strands, weights, err = r.within(strands, weights, &notes); err != nil {
			if r.algorithm == "auto" {
				failed = append(failed, err)
				continue
			}
			return nil, fmt.Errorf("%s on %s: %w", a.name, title(r.g), err)
		}
		m.fit(strands, weights, r.kind, r.planRoot())
		m.measure(strands, r.kind, r.planRoot())
		list = append(list, candidate{a.name, strands, notes})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no algorithm has a plan for %s: %w", title(r.g), errors.Join(failed...))
	}
	return list, nil
}

// lanesEach is the number of lanes that a plan has for one strand: a ring has
// one for every rank where it begins, a tree one for every part, or for its own.
func (r *request) lanesEach(ring, ofPart bool) int {
	if ring && !r.kind.HasRoot() || r.kind.HasParts() && !ofPart {
		return r.g.Ranks
	}
	return 1
}

// within leaves out the strands for which a plan has no lanes, those of the
// least weight, and says so in a note.
func (r *request) within(strands []strand, weights []float64, notes *[]string) ([]strand, []float64, error) {
	ring := strands[0].ring != nil
	each, what := r.lanesEach(ring, strands[0].ofPart), "trees"
	if ring {
		what = "rings and directions"
	}
	most := plan.MaxLanes / each
	switch {
	case most == 0:
		return nil, nil, fmt.Errorf("%v needs %d lanes for every one of its %s, and a plan has at most %d: use --algorithm double-binary for allreduce, reduce or broadcast", r.kind, each, what, plan.MaxLanes)
	case len(strands) <= most:
		return strands, weights, nil
	}
	*notes = append(*notes, fmt.Sprintf("%d of %d %s are used: each takes %d lanes of a plan, which has at most %d", most, len(strands), what, each, plan.MaxLanes))
	order := make([]int, len(strands))
	for i := range order {
		order[i] = i
	}
	if weights == nil {
		return strands[:most], nil, nil
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(weights[j], weights[i]) })
	order = order[:most]
	slices.Sort(order)
	var kept []strand
	var rates []float64
	for _, i := range order {
		kept, rates = append(kept, strands[i]), append(rates, weights[i])
	}
	return kept, rates, nil
}

// ofTrees makes strands. For a collective with a root every tree is hung up
// there.
func (r *request) ofTrees(trees []topo.Tree) (list []strand, notes []string) {
	for _, t := range trees {
		if t.Note != "" {
			notes = append(notes, t.Note)
		}
		if r.kind.HasRoot() {
			t = t.Reroot(r.root)
		}
		list = append(list, strand{tree: t})
	}
	slices.Sort(notes)
	return list, slices.Compact(notes)
}

// perRoot returns the tree of --root, or one tree for every root.
func (r *request) perRoot(build func(root int) (topo.Tree, error)) ([]topo.Tree, error) {
	roots := []int{r.root}
	if r.root < 0 {
		roots = roots[:0]
		for v := range r.g.Ranks {
			roots = append(roots, v)
		}
	}
	var trees []topo.Tree
	for _, root := range roots {
		t, err := build(root)
		if err != nil {
			return nil, err
		}
		trees = append(trees, t)
	}
	return trees, nil
}

func kl(r *request) ([]strand, []float64, []string, error) {
	o := tree.KLOptions{Seed: r.seed}
	var trees []topo.Tree
	var err error
	if r.root >= 0 {
		trees, err = r.perRoot(func(root int) (topo.Tree, error) { return tree.KL(r.g, root, o) })
	} else {
		trees, err = tree.KLAll(r.g, r.penalty, o)
	}
	list, notes := r.ofTrees(trees)
	return list, nil, notes, err
}

func exact(r *request) ([]strand, []float64, []string, error) {
	trees, err := r.perRoot(func(root int) (topo.Tree, error) { return tree.Exact(r.g, root) })
	list, notes := r.ofTrees(trees)
	return list, nil, notes, err
}

func multi(r *request) ([]strand, []float64, []string, error) {
	trees, err := tree.Multi(r.g)
	if err != nil {
		return nil, nil, nil, err
	}
	list, notes := r.ofTrees(trees)
	if cut := tree.Cut(r.g, true); cut != "" {
		notes = append(notes, cut)
	}
	return list, nil, notes, nil
}

func doubleBinary(r *request) ([]strand, []float64, []string, error) {
	trees, err := tree.DoubleBinaryOn(r.g, tree.Current)
	if err != nil {
		return nil, nil, nil, err
	}
	list, notes := r.ofTrees(trees)
	return list, nil, notes, nil
}

func packing(r *request) ([]strand, []float64, []string, error) {
	if list, weights, ok, err := r.partTrees(); ok || err != nil {
		return list, weights, nil, err
	}
	var p *pack.Result
	var err error
	if r.g.Ranks > pack.MaxRanks {
		return nil, nil, nil, fmt.Errorf("packing is for up to %d ranks: use --algorithm hierarchical, which packs trees inside and between hosts, or double-binary", pack.MaxRanks)
	}
	if r.kind.HasRoot() {
		p, err = pack.PackOneWay(r.g, r.root, r.pack)
	} else {
		p, err = pack.Pack(r.g, r.pack)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if r.g.Ranks > 1 && !r.kind.HasParts() {
		r.proved = &p.Bound
	}
	list, notes := r.ofTrees(p.Trees)
	if p.Note != "" {
		notes = append(notes, p.Note)
	}
	limits := r.pack
	if limits.Seed = 0; limits == (pack.Options{}) && p.Ratio < 0.99 {
		notes = append(notes, fmt.Sprintf("the search for trees ended after its budget of steps, with %d trees and %.1f %% of the bound: %d links are too many for more", len(p.Trees), 100*p.Ratio, len(r.g.Links)))
	}
	return list, p.Rates, notes, nil
}

func chain(r *request) ([]strand, []float64, []string, error) {
	return r.one(tree.Chain)
}

func star(r *request) ([]strand, []float64, []string, error) {
	return r.one(tree.Star)
}

// one is for baselines of one tree, whose root is 0 when none is given.
func (r *request) one(build func(*topo.Graph, int) (topo.Tree, error)) ([]strand, []float64, []string, error) {
	t, err := build(r.g, max(r.root, 0))
	if err != nil {
		return nil, nil, nil, err
	}
	list, notes := r.ofTrees([]topo.Tree{t})
	return list, nil, notes, nil
}

// mostRings is the number of rings that are used at once, as many as NCCL would
// use on a machine of today. With more than a hundred ranks there are fewer: a
// ring has a lane for every rank, and a plan has at most plan.MaxLanes.
const mostRings = 16

// ring uses every ring in both directions, as NCCL does.
func ring(r *request) ([]strand, []float64, []string, error) {
	if r.g.Ranks == 1 {
		return []strand{{ring: []int{0}}}, nil, nil, nil
	}
	most := min(mostRings, plan.MaxLanes/r.lanesEach(true, false)/2)
	if most == 0 {
		return nil, nil, nil, fmt.Errorf("a ring in both directions needs %d lanes, and a plan has at most %d: use --algorithm double-binary", 2*r.lanesEach(true, false), plan.MaxLanes)
	}
	found, err := tree.Rings(r.g, most)
	if err != nil {
		return nil, nil, nil, err
	}
	var list []strand
	var weights []float64
	for _, f := range found {
		back := slices.Clone(f.Order)
		slices.Reverse(back[1:]) // both begin at the same rank
		list = append(list, strand{ring: f.Order}, strand{ring: back, mirrored: true})
		weights = append(weights, f.GBytesPerSecond, f.GBytesPerSecond)
	}
	return list, weights, nil, nil
}
