package collective

import (
	"errors"
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// decision is what rank 0 makes of the graph and the settings: every rank would
// come to the same, but not for nothing, and where many ranks share few cores
// they would all do so one after the other. What follows from it, the plans and
// the links, every rank makes itself, and digests are compared.
type decision struct {
	Error     string // why there is none
	Trees     []decidedTree
	SmallRoot int
	Sets      []decidedSet // of trees over hosts; Trees is empty then
	AllReduce []decidedChoice
	Barrier   []decidedChoice
	More      []decidedKind // rising
}

// decidedKind is what was decided for a kind that not every communicator needs.
type decidedKind struct {
	Kind    int
	Choices []decidedChoice
}

type decidedTree struct {
	Root          int
	Parent, Round []int
}

type decidedChoice struct {
	Below int // bytes
	Shape string
	Chunk int // bytes, 0: a slot
	Least int // bytes, 0: as always
	Us    float64
}

type decidedSet struct {
	Shape   string
	Of      int
	Root    int       // host, -1 for none
	Parents []int     // of the hosts in the first tree, then in the next, -1 at a root
	Weights []float64 // by tree; none: equal
}

// plan lets rank 0 plan and gives all ranks the outcome.
func (s *setup) plan(g *topo.Graph) (*planner, error) {
	if s.w.Rank() != 0 {
		all, err := exchange(s.ctx, s.w, decision{})
		if err != nil {
			return nil, fmt.Errorf("hearing of rank 0's trees: %w", err)
		}
		if all[0].Error != "" {
			return nil, fmt.Errorf("rank 0: %s", all[0].Error)
		}
		return newPlanner(g, s.w.Rank(), s.cfg, &all[0])
	}
	p, failed := newPlanner(g, 0, s.cfg, nil)
	d := decision{Error: fmt.Sprint(failed)}
	if failed == nil {
		d = p.decision()
	}
	_, err := exchange(s.ctx, s.w, d)
	return p, errors.Join(failed, err)
}

func (p *planner) decision() decision {
	d := decision{SmallRoot: p.smallRoot, Sets: p.hosts.decided()}
	for _, t := range p.trees {
		d.Trees = append(d.Trees, decidedTree{t.Root, t.Parent, t.Round})
	}
	d.AllReduce, d.Barrier = decided(p.choices[plan.AllReduce]), decided(p.choices[plan.Barrier])
	for _, kind := range p.first {
		if kind != plan.AllReduce && kind != plan.Barrier {
			d.More = append(d.More, decidedKind{int(kind), decided(p.choices[kind])})
		}
	}
	return d
}

func decided(all []choice) []decidedChoice {
	var out []decidedChoice
	for _, c := range all {
		out = append(out, decidedChoice{c.below, c.shape.String(), c.chunks.Most, c.chunks.Least, c.us})
	}
	return out
}

// trees returns the trees of a decision, checked: one per root.
func (d *decision) trees(size int) ([]topo.Tree, error) {
	if len(d.Trees) != size {
		return nil, fmt.Errorf("rank 0 decided on %d trees for %d ranks", len(d.Trees), size)
	}
	trees := make([]topo.Tree, size)
	for r, t := range d.Trees {
		trees[r] = topo.Tree{Root: t.Root, Parent: t.Parent, Round: t.Round}
		if err := trees[r].Validate(size); err != nil {
			return nil, fmt.Errorf("tree %d of rank 0's decision: %w", r, err)
		}
		if t.Root != r {
			return nil, fmt.Errorf("tree %d of rank 0's decision has root %d", r, t.Root)
		}
	}
	return trees, nil
}

// follow takes over the choices of a decision, checked.
func (p *planner) follow(d *decision) error {
	if d.SmallRoot < 0 || d.SmallRoot >= p.size {
		return fmt.Errorf("rank 0 decided on root %d of %d ranks", d.SmallRoot, p.size)
	}
	p.smallRoot = d.SmallRoot
	lists := map[plan.Kind][]decidedChoice{plan.AllReduce: d.AllReduce, plan.Barrier: d.Barrier}
	for _, m := range d.More {
		lists[plan.Kind(m.Kind)] = m.Choices
	}
	for _, kind := range p.first {
		to, err := p.chosen(kind, lists[kind])
		if err != nil {
			return fmt.Errorf("rank 0's choices for %s: %w", kind, err)
		}
		p.choices[kind] = to
	}
	return nil
}

// chosen turns decided choices into ours: rising sizes, up to the largest, and
// shapes that kind can run in over the open lanes.
func (p *planner) chosen(kind plan.Kind, from []decidedChoice) ([]choice, error) {
	var out []choice
	before := 0
	for _, c := range from {
		s, ok := shapeOf(c.Shape)
		if !ok || p.hosts == nil && s >= shapes || p.hosts != nil && !p.hosts.fits(kind, s) {
			return nil, fmt.Errorf("no shape %q", c.Shape)
		}
		if c.Below <= before {
			return nil, fmt.Errorf("sizes below %d after those below %d", c.Below, before)
		}
		before = c.Below
		for _, bytes := range []int{c.Chunk, c.Least} {
			if bytes < 0 || bytes > transport.MaxSlotBytes || bytes%quantumBytes != 0 {
				return nil, fmt.Errorf("chunks of %d bytes, want a multiple of %d up to %d", bytes, quantumBytes, transport.MaxSlotBytes)
			}
		}
		m, err := p.make(kind, 0, s)
		if err != nil {
			return nil, err
		}
		for _, k := range m.lanes {
			if _, open := p.lanes.number[k]; !open {
				return nil, fmt.Errorf("shape %v needs links that are not there", s)
			}
		}
		out = append(out, choice{below: c.Below, shape: s, chunks: exec.Chunks{Most: c.Chunk, Least: c.Least}, us: c.Us})
	}
	if before != math.MaxInt {
		return nil, fmt.Errorf("sizes end at %d", before)
	}
	return out, nil
}
