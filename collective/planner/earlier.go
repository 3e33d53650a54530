package planner

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
)

// Earlier has the choices that a Planner has made, for one of nearly the same ranks. That takes them over where it
// offers the algorithm, and need not price them before the first calls.
type Earlier struct {
	Ranks  int            // the prices are those for this number of ranks
	Tables []DecidedTable // sizes without a choice are left out
}

// Choices returns the choices that were made or taken over so far.
func (p *Planner) Choices() *Earlier {
	e := &Earlier{Ranks: p.Site.graph.Ranks}
	if p.finder.earlier != nil {
		e.Ranks = p.finder.earlier.Ranks
	}
	for kind, t := range p.tables {
		of := DecidedTable{Kind: kind}
		for _, r := range t.ranges {
			of.Choices = append(of.Choices, r.DecidedChoice)
		}
		if len(of.Choices) > 0 {
			e.Tables = append(e.Tables, of)
		}
	}
	return e
}

// TakeOver has p take over choices, before it has made any. It does not where these are of too many more ranks, or of
// fewer.
func (p *Planner) TakeOver(e *Earlier) error {
	if n := p.Site.graph.Ranks; e == nil || len(e.Tables) == 0 || n > e.Ranks || 4*n < 3*e.Ranks {
		return nil
	}
	for _, t := range e.Tables {
		if t.Kind < int(plan.AllReduce) || t.Kind >= len(p.tables) {
			return fmt.Errorf("earlier choices for kind %d", t.Kind)
		}
		for i, c := range t.Choices {
			if c.From < 0 || c.Below <= c.From || i > 0 && c.From < t.Choices[i-1].Below {
				return fmt.Errorf("earlier choices for kind %d: sizes from %d and below %d", t.Kind, c.From, c.Below)
			}
			if err := c.Chunks.Check(); err != nil {
				return fmt.Errorf("earlier choices for kind %d: %w", t.Kind, err)
			}
		}
	}
	p.finder.earlier = e
	return nil
}

// takenOver returns the earlier choice for a size, nil where there is none, or for an algorithm without a plan here.
func (t *table) takenOver(set *candidateSet, bytes int64) *Range {
	if t.finder.earlier == nil {
		return nil
	}
	for _, of := range t.finder.earlier.Tables {
		for _, c := range of.Choices {
			if plan.Kind(of.Kind) == t.kind && c.From <= bytes && bytes < c.Below && set.named(c.Algorithm) != nil {
				return &Range{DecidedChoice: c}
			}
		}
	}
	return nil
}
