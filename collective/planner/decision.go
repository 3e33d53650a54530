package planner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/treerun/treerun/collective/plan"
)

// Decision holds the trees and choices that one rank, rank 0, has found for all: every rank would find the same, but
// the search takes time. Every rank makes the plans and links that follow from it itself, and makes missing choices
// when it calls.
type Decision struct {
	TreeSets []TreeSet
	Tables   []DecidedTable
	Earlier  []DecidedTable // which that rank has taken over
	Ranks    int            // of Earlier
}

// DecidedTable has the choices for a kind, by size.
type DecidedTable struct {
	Kind    int
	Choices []DecidedChoice
}

// DecidedChoice is the algorithm for messages from a size on and below another, in bytes, and their chunks.
type DecidedChoice struct {
	From, Below int64
	Bytes       int64 // the size that it was priced for first
	Algorithm   string
	Chunks      plan.Chunks
}

// Decide finds the trees of all kinds and roots that take time to find, and chooses for
// the given kinds.
func (p *Planner) Decide(kinds []plan.Kind) (*Decision, error) {
	if err := p.finder.searchTrees(); err != nil {
		return nil, err
	}
	d := &Decision{}
	if e := p.finder.earlier; e != nil {
		d.Earlier, d.Ranks = e.Tables, e.Ranks
	}
	for _, kind := range kinds {
		list, err := p.tables[kind].all()
		if err != nil && p.Site.ordered(kind) {
			continue // calls return the error, if there are any
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
	found := p.finder.found.byKey
	for _, key := range slices.Sorted(maps.Keys(found)) {
		d.TreeSets = append(d.TreeSets, *found[key])
	}
	return d, nil
}

// Follow checks and takes over the decision of another rank.
func (p *Planner) Follow(d *Decision) error {
	for _, f := range d.TreeSets {
		if err := f.check(); err != nil {
			return fmt.Errorf("trees %q: %w", f.Key, err)
		}
		p.finder.found.byKey[f.Key] = &f
	}
	if err := p.TakeOver(&Earlier{d.Ranks, d.Earlier}); err != nil {
		return err
	}
	for _, t := range d.Tables {
		err := fmt.Errorf("%d choices", len(t.Choices))
		if t.Kind >= int(plan.AllReduce) && t.Kind < len(p.tables) && len(t.Choices) > 0 {
			err = p.tables[t.Kind].follow(t.Choices)
		}
		if err != nil {
			return fmt.Errorf("choices for kind %d: %w", t.Kind, err)
		}
	}
	return nil
}
