package planner

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Decision is what one rank, rank 0, has found and chosen for all: every rank would come
// to the same, but not for nothing, and where many ranks share few cores they would do
// so one after the other. What follows from it, the plans and their links, every rank
// makes itself.
type Decision struct {
	Forests []DecidedForest
	Tables  []DecidedTable
}

// DecidedForest is trees by the name under which a Planner keeps them. Parents and Rounds
// have those of the first tree, then of the next. Rounds and Rates may be empty.
type DecidedForest struct {
	Key             string
	Ranks           int
	Parents, Rounds []int // Rounds of a tree without are -1
	Rates           []float64
	Note            string
}

// DecidedTable is what runs a kind, by size.
type DecidedTable struct {
	Kind    int
	Choices []DecidedChoice
}

// DecidedChoice is the algorithm for messages below a size, in bytes, and their chunks.
type DecidedChoice struct {
	Below, Bytes int64
	Algorithm    string
	Max, Min     int // as in plan.Chunks
}

// Decide finds the trees of all kinds and roots that take time to find, and chooses for
// the given kinds.
func (p *Planner) Decide(kinds []plan.Kind) (*Decision, error) {
	if _, err := p.Links(); err != nil { // which takes all trees
		return nil, err
	}
	d := &Decision{}
	for _, kind := range kinds {
		if _, err := p.entry(kind, 0); err != nil {
			return nil, err
		}
		t := DecidedTable{Kind: int(kind)}
		for _, e := range p.tables[kind].choices {
			t.Choices = append(t.Choices, DecidedChoice{e.below, e.bytes, e.name, e.chunks.Max, e.chunks.Min})
		}
		d.Tables = append(d.Tables, t)
	}
	for _, key := range slices.Sorted(maps.Keys(p.found)) {
		f := p.found[key]
		one := DecidedForest{Key: key, Rates: f.Rates, Note: f.Note, Ranks: len(f.Trees[0].Parent)}
		for _, t := range f.Trees {
			one.Parents = append(one.Parents, t.Parent...)
			rounds := t.Round
			if rounds == nil {
				rounds = slices.Repeat([]int{-1}, one.Ranks)
			}
			one.Rounds = append(one.Rounds, rounds...)
		}
		d.Forests = append(d.Forests, one)
	}
	return d, nil
}

// Follow takes over what another rank has decided, checked.
func (p *Planner) Follow(d *Decision) error {
	for i := range d.Forests {
		f, err := d.Forests[i].forest()
		if err != nil {
			return fmt.Errorf("trees %q: %w", d.Forests[i].Key, err)
		}
		p.found[d.Forests[i].Key] = f
	}
	for _, t := range d.Tables {
		if err := p.follow(&t); err != nil {
			return fmt.Errorf("choices for kind %d: %w", t.Kind, err)
		}
	}
	return nil
}

func (d *DecidedForest) forest() (*Forest, error) {
	n, all := d.Ranks, len(d.Parents)
	if n < 1 || n > topo.MaxRanks || all == 0 || all%n != 0 || all/n > plan.MaxLanes || len(d.Rounds) != all ||
		len(d.Rates) != 0 && len(d.Rates) != all/n {
		return nil, fmt.Errorf("%d parents, %d rounds and %d rates for trees of %d", all, len(d.Rounds), len(d.Rates), n)
	}
	f := &Forest{Note: d.Note}
	if len(d.Rates) > 0 {
		f.Rates = d.Rates
	}
	for i := 0; i < all; i += n {
		t := topo.Tree{Root: slices.Index(d.Parents[i:i+n], -1), Parent: d.Parents[i : i+n]}
		if d.Rounds[i] >= 0 {
			t.Round = d.Rounds[i : i+n]
		}
		if err := t.Validate(n); err != nil {
			return nil, err
		}
		if f.Rates != nil && !(f.Rates[i/n] > 0 && f.Rates[i/n] < math.MaxFloat64) {
			return nil, fmt.Errorf("rate %v", f.Rates[i/n])
		}
		f.Trees = append(f.Trees, t)
	}
	return f, nil
}

// follow takes over choices: rising sizes, up to the largest, and algorithms that the
// kind has here.
func (p *Planner) follow(d *DecidedTable) error {
	if d.Kind < int(plan.AllReduce) || d.Kind > int(plan.AllToAll) || len(d.Choices) == 0 {
		return fmt.Errorf("%d choices", len(d.Choices))
	}
	t := &table{}
	before := int64(-1)
	for _, c := range d.Choices {
		if c.Below <= before || c.Bytes < 0 || c.Bytes > c.Below {
			return fmt.Errorf("sizes below %d after those below %d", c.Below, before)
		}
		before = c.Below
		for _, bytes := range []int{c.Max, c.Min} {
			if bytes < 0 || bytes > maxChunk || bytes%quantumBytes != 0 {
				return fmt.Errorf("chunks of %d bytes, want a multiple of %d up to %d", bytes, quantumBytes, maxChunk)
			}
		}
		if _, err := p.candidate(plan.Kind(d.Kind), 0, c.Algorithm); err != nil {
			return err
		}
		t.choices = append(t.choices, &entry{
			below: c.Below, bytes: c.Bytes, name: c.Algorithm, us: math.NaN(),
			chunks: plan.Chunks{Max: c.Max, Min: c.Min},
		})
	}
	if before != math.MaxInt64 {
		return fmt.Errorf("sizes end at %d", before)
	}
	p.tables[d.Kind] = t
	return nil
}

const maxChunk = 1 << 30
