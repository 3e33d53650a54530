package planner

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/treerun/treerun/collective/plan"
)

// entry is the candidate for messages from a size on and below another. The entries of a kind, by rising size, are for
// all roots: the prices are those of root 0. Undecided entries are found when a message of such a size is first served.
type entry struct {
	from int64
	DecidedChoice
	plans []*ChosenPlan // by root
}

// steps returns the ratio of the sizes that are always priced, and the least ratio of two
// between which others are where they choose differently: the more ranks, the longer
// takes a price.
func (s *Site) steps() (always int64, near float64) {
	n := s.graph.Ranks
	switch {
	case n <= directRanks:
		return 4, 1.2
	case n <= manyRanks:
		return 4, 2
	}
	return 16, 4
}

// sizes returns the sizes that are always priced, rising.
func (s *Site) sizes() []int64 {
	var list []int64
	most := int64(maxPriced)
	if s.uniform && s.hosts == nil && !s.machine.Device {
		most = maxUniform
	}
	step, _ := s.steps()
	for bytes := int64(minPriced); bytes <= most; bytes *= step {
		list = append(list, bytes)
	}
	return list
}

// entry returns the choice for messages of a kind and size.
func (p *Planner) entry(kind plan.Kind, bytes int64) (*entry, error) {
	t := p.tables[kind]
	at := 0
	for at < len(t) && t[at].Below <= bytes {
		at++
	}
	if at < len(t) && t[at].from <= bytes {
		return t[at], nil
	}
	e, err := p.find(kind, bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", kind, err)
	}
	p.tables[kind] = slices.Insert(t, at, e)
	return e, nil
}

// table returns the choices for all sizes of a kind.
func (p *Planner) table(kind plan.Kind) (t []*entry, err error) {
	for bytes := int64(0); bytes < math.MaxInt64; bytes = t[len(t)-1].Below {
		e, err := p.entry(kind, bytes)
		if err != nil {
			return nil, err
		}
		t = append(t, e)
	}
	return t, nil
}

// find chooses for messages of about a size: between the nearest of the sizes that are
// always priced it prices others, until it is known where the choice changes, or the plan
// with the shares of its trees.
func (p *Planner) find(kind plan.Kind, bytes int64) (*entry, error) {
	o, err := p.candidatesFor(kind, 0)
	if err != nil {
		return nil, err
	}
	if e, _ := p.byRule(kind, o, bytes); e != nil {
		return e, nil
	}
	sizes := p.Site.sizes()
	if kind == plan.Barrier {
		sizes = []int64{0}
	}
	next := sort.Search(len(sizes), func(i int) bool { return sizes[i] > bytes })
	next = max(next, 1) // the first is for smaller messages, too
	low, err := p.pricedAt(kind, o.list, sizes[next-1])
	if err != nil {
		return nil, err
	}
	e := &entry{DecidedChoice: low}
	if next > 1 {
		e.from = low.Bytes
	}
	if next == len(sizes) {
		return e, nil
	}
	high, err := p.pricedAt(kind, o.list, sizes[next])
	for err == nil {
		e.Below = high.Bytes
		between := int64(math.Sqrt(float64(e.Bytes) * float64(high.Bytes)))
		between &^= max(minPriced, int64(1)<<bits.Len64(uint64(between))>>3) - 1 // few digits
		_, near := p.Site.steps()
		if e.same(&high, o.list) || float64(high.Bytes) < near*float64(between) || between <= e.Bytes {
			return e, nil
		}
		middle := DecidedChoice{math.MaxInt64, between, high.Algorithm, high.Chunks}
		if e.Algorithm != high.Algorithm || e.Chunks != high.Chunks {
			middle, err = p.pricedAt(kind, o.list, between)
		}
		if bytes < between {
			high = middle
		} else {
			e.from, e.DecidedChoice = between, middle
		}
	}
	return nil, err
}

// pricedAt returns the cheapest choice for a size of a kind, priced once.
func (p *Planner) pricedAt(kind plan.Kind, list []*Candidate, bytes int64) (DecidedChoice, error) {
	key := size{kind, bytes}
	if c, ok := p.cheapestAt[key]; ok {
		return c, nil
	}
	c, err := p.Prices.cheapest(list, bytes)
	if err == nil {
		p.cheapestAt[key] = c
	}
	return c, err
}

// byRule returns the choice for a size of a kind for which no price counts, and the rule
// that decides; "" is none.
func (p *Planner) byRule(kind plan.Kind, o *candidateSet, bytes int64) (*entry, string) {
	always := func(c *Candidate) *entry {
		return &entry{DecidedChoice: DecidedChoice{Below: math.MaxInt64, Bytes: minPriced, Algorithm: c.Name()}}
	}
	const only, sideBySide = "only this one is offered here", "parts of several chunks go side by side"
	first, last := o.list[0], o.list[len(o.list)-1]
	star := slices.IndexFunc(o.list, func(c *Candidate) bool { return c.Algorithm == "star" })
	switch {
	case p.Site.graph.Ranks == 1 || first == last &&
		(kind == plan.Barrier || len(first.Channels) < 2 && p.Site.hosts == nil && !p.Site.machine.Device):
		return always(first), only
	case kind == plan.Barrier && star >= 0 && p.Site.sharesCores():
		return always(o.list[star]), "ranks share cores, and rank 0 is to leave a barrier first"
	case kind == plan.AllToAll && first != last:
		// In an AllToAll of parts that take several chunks no rank should wait for the slowest of the others.
		chunk := 8 << 10 * int64(p.Site.graph.Ranks)
		e := always(first)
		if e.Below = chunk; bytes >= chunk {
			e = always(last)
			e.from = chunk
		}
		return e, sideBySide
	case pairwise(kind):
		return always(first), only
	case first == last:
		return nil, only // the price chooses its chunks
	}
	return nil, ""
}

// same reports whether two choices have the same plan and chunks.
func (c *DecidedChoice) same(o *DecidedChoice, list []*Candidate) bool {
	if c.Algorithm != o.Algorithm || c.Chunks != o.Chunks {
		return false
	}
	of := named(list, c.Algorithm)
	x, err := of.build(c.Bytes)
	y, failed := of.build(o.Bytes)
	return err == nil && failed == nil && x.Plan == y.Plan
}

// Decision holds the trees and choices that one rank, rank 0, has found for all: every rank would find the same, but
// the search takes time. Every rank makes the plans and links that follow from it itself, and makes missing choices
// when it calls.
type Decision struct {
	TreeSets []TreeSet
	Tables   []DecidedTable
}

// DecidedTable has the choices for a kind, by size.
type DecidedTable struct {
	Kind    int
	Choices []DecidedChoice
}

// DecidedChoice is the algorithm for messages below a size, in bytes, and their chunks.
type DecidedChoice struct {
	Below, Bytes int64 // Bytes is the size that it was priced for first
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
	for _, key := range slices.Sorted(maps.Keys(p.found)) {
		d.TreeSets = append(d.TreeSets, *p.found[key])
	}
	return d, nil
}

// Follow checks and takes over the decision of another rank.
func (p *Planner) Follow(d *Decision) error {
	for _, f := range d.TreeSets {
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

func (f *TreeSet) check() error {
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
