package planner

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
)

// Decision is what one rank, rank 0, has found and chosen for all: every rank would come
// to the same, but not for nothing. What follows from it, the plans and their links, every
// rank makes itself, and chooses what nobody has chosen when it calls it.
type Decision struct {
	Forests []Forest
	Tables  []DecidedTable
}

// DecidedTable is what runs a kind, by size.
type DecidedTable struct {
	Kind    int
	Choices []DecidedChoice
}

// DecidedChoice is the algorithm for messages below a size, in bytes, and their chunks.
type DecidedChoice struct {
	Below, Bytes int64 // Bytes is what it was priced for first
	Algorithm    string
	Chunks       plan.Chunks
}

// Decide finds the trees of all kinds and roots that take time to find, and chooses for
// the given kinds.
func (p *Planner) Decide(kinds []plan.Kind) (*Decision, error) {
	if err := p.search(); err != nil {
		return nil, err
	}
	d := &Decision{}
	for _, kind := range kinds {
		list, err := p.table(kind)
		if err != nil && p.ordered(kind) {
			continue // calls say so, if there are any
		}
		if err != nil {
			return nil, err
		}
		t := DecidedTable{Kind: int(kind)}
		for _, e := range list {
			t.Choices = append(t.Choices, e.DecidedChoice)
		}
		d.Tables = append(d.Tables, t)
	}
	for _, key := range slices.Sorted(maps.Keys(p.found)) {
		d.Forests = append(d.Forests, *p.found[key])
	}
	return d, nil
}

// Follow takes over what another rank has decided, checked.
func (p *Planner) Follow(d *Decision) error {
	for _, f := range d.Forests {
		if err := f.check(); err != nil {
			return fmt.Errorf("trees %q: %w", f.Key, err)
		}
		p.found[f.Key] = &f
	}
	for _, t := range d.Tables {
		if err := p.follow(&t); err != nil {
			return fmt.Errorf("choices for kind %d: %w", t.Kind, err)
		}
	}
	return nil
}

func (f *Forest) check() error {
	if len(f.Trees) == 0 || len(f.Trees) > plan.MaxLanes || len(f.Rates) != 0 && len(f.Rates) != len(f.Trees) {
		return fmt.Errorf("%d trees with %d rates", len(f.Trees), len(f.Rates))
	}
	for _, t := range f.Trees {
		if err := t.Validate(len(f.Trees[0].Parent)); err != nil {
			return err
		}
	}
	for _, rate := range f.Rates {
		if !(rate > 0 && rate < math.MaxFloat64) {
			return fmt.Errorf("rate %v", rate)
		}
	}
	return nil
}

// follow takes over choices: rising sizes, up to the largest, and algorithms that the
// kind has here.
func (p *Planner) follow(d *DecidedTable) error {
	if d.Kind < int(plan.AllReduce) || d.Kind > int(plan.AllToAll) || len(d.Choices) == 0 {
		return fmt.Errorf("%d choices", len(d.Choices))
	}
	o, err := p.candidatesFor(plan.Kind(d.Kind), 0)
	if err != nil {
		return err
	}
	var t []*entry
	before := int64(-1)
	for _, c := range d.Choices {
		if c.Below <= before || c.Bytes < 0 || c.Bytes > c.Below {
			return fmt.Errorf("sizes below %d after those below %d", c.Below, before)
		}
		t = append(t, &entry{from: max(before, 0), DecidedChoice: c})
		before = c.Below
		if err := c.Chunks.Check(); err != nil {
			return err
		}
		if named(o.list, c.Algorithm) == nil {
			return fmt.Errorf("%v from root 0 has no plan by algorithm %s", plan.Kind(d.Kind), c.Algorithm)
		}
	}
	if before != math.MaxInt64 {
		return fmt.Errorf("sizes end at %d", before)
	}
	p.tables[d.Kind] = t
	return nil
}
