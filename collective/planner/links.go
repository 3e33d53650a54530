package planner

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// Runs reports why there is no plan for a kind, however it is asked for.
func (p *Planner) Runs(kind plan.Kind) error {
	if p.graph.Ranks <= PairRanks {
		return nil
	}
	switch kind {
	case plan.AllToAll, plan.Gather, plan.Scatter:
	case plan.AllGather, plan.ReduceScatter:
		if p.hosts == nil {
			return nil
		}
		// Over a tree for every part, whose links between hosts would be too many.
	default:
		return nil
	}
	return because("it is for up to %d ranks, not for %d", PairRanks, p.graph.Ranks)
}

// HasPairs reports whether there are links between all pairs of ranks.
func (p *Planner) HasPairs() bool { return p.graph.Ranks <= PairRanks }

// linkSet is links as numbers that rise with their source, destination and lane, all below
// 1<<laneBits.
type linkSet []uint64

const laneBits = 16

func (s *linkSet) add(lane, src, dst int) {
	*s = append(*s, uint64(src)<<(2*laneBits)|uint64(dst)<<laneBits|uint64(lane))
}

// addPairs adds the links of a lane between all of n ranks.
func (s *linkSet) addPairs(lane, n int) {
	for a := range n {
		for b := range n {
			if a != b {
				s.add(lane, a, b)
			}
		}
	}
}

func laneOf(k uint64) int { return int(k & (1<<laneBits - 1)) }

// lanes returns one more than the highest lane.
func (s linkSet) lanes() (n int) {
	for _, k := range s {
		n = max(n, laneOf(k)+1)
	}
	return n
}

// all visits the links in their order.
func (s linkSet) all(yield func(plan.Link) bool) {
	for _, k := range s {
		if !yield(plan.Link{Lane: laneOf(k), Src: int(k >> (2 * laneBits)), Dst: int(k >> laneBits & (1<<laneBits - 1))}) {
			return
		}
	}
}

// Links returns the links of all plans that may be served, and how many they are: those of every
// candidate of every kind and root, and of the given plan, each link once, sorted by ranks and lane. Those of
// lane 0 join all pairs of ranks, where these are not too many; so do those of one lane more, which carries
// messages. That is the lane returned, -1 without one.
func (p *Planner) Links() (links iter.Seq[plan.Link], count, messages int, err error) {
	set, err := p.linkSet()
	if err != nil {
		return nil, 0, -1, err
	}
	messages = -1
	if p.HasPairs() {
		messages = max(1, set.lanes()-1) // one rank has none
	}
	return set.all, len(set), messages, nil
}

// linkSet returns the links of all plans that may be served, and those of messages on the highest lane.
func (p *Planner) linkSet() (linkSet, error) {
	if p.links != nil {
		return p.links, nil
	}
	n, links := p.graph.Ranks, linkSet{}
	type onLane struct {
		lane   int
		parent *int // of rank 0
	}
	seen := make(map[onLane]bool) // trees of other kinds, of the same forest
	fresh := func(s *Channel) bool {
		at := onLane{s.lane, &s.Tree.Parent[0]}
		again := seen[at]
		seen[at] = true
		return !again
	}
	if p.HasPairs() {
		links.addPairs(0, n)
	}
	err := p.each(func(c *Candidate) error { return c.links(links.add, fresh, p.HasPairs()) })
	if err != nil {
		return nil, err
	}
	if g := p.options.Given; g != nil {
		for _, k := range g.Plan().Links() {
			links.add(g.served.Lanes[k.Lane], k.Src, k.Dst)
		}
	}
	if p.HasPairs() {
		links.addPairs(max(1, links.lanes()), n)
	}
	slices.Sort(links)
	p.links = slices.Compact(links)
	return p.links, nil
}

// each visits the candidates of all kinds, without their rates, and of all roots whose
// links differ.
func (p *Planner) each(visit func(*Candidate) error) error {
	p.bare = true
	defer func() { p.bare = false }()
	for kind := plan.AllReduce; kind <= plan.AllToAll; kind++ {
		if p.Runs(kind) != nil {
			continue
		}
		for _, root := range p.rootsOf(kind) {
			o, err := p.candidatesFor(kind, root)
			if err != nil && p.ordered(kind) {
				continue // calls say so, if there are any
			}
			if err != nil {
				return err
			}
			for _, c := range o.list {
				if err := visit(c); err != nil {
					return fmt.Errorf("%v, algorithm %s: %w", kind, c.Name(), err)
				}
			}
		}
	}
	return nil
}

// rootsOf returns roots of a kind such that the plans of any other root take the same
// links: of many ranks on several hosts one of each, as the trees of the others are those
// turned round; on one host one, whose trees are those of kinds without a root.
func (p *Planner) rootsOf(kind plan.Kind) (roots []int) {
	free := p.options.Suits() == nil && !p.ordered(kind)
	switch {
	case !kind.HasRoot() || pairwise(kind):
		return []int{0}
	case free && p.hosts != nil && p.graph.Ranks > directRanks:
		for _, ranks := range p.hosts.ranks {
			roots = append(roots, ranks[0])
		}
		return roots
	case free && p.graph.Ranks > directRanks:
		return []int{0}
	}
	for r := range p.graph.Ranks {
		roots = append(roots, r)
	}
	return roots
}

// links visits the links of the plans of a candidate, for all sizes of messages. Those
// of trees go both ways: other kinds use them the other way. fresh says that it did not see a
// channel before.
func (c *Candidate) links(add func(lane, src, dst int), fresh func(*Channel) bool, pairs bool) error {
	if len(c.Channels) > 0 && c.Channels[0].Ring == nil && (c.OfParts() || !c.Kind.HasParts()) {
		for i := range c.Channels {
			s := &c.Channels[i]
			if !fresh(s) {
				continue
			}
			for v, up := range s.Tree.Links() {
				add(s.lane, v, up)
				add(s.lane, up, v)
			}
		}
		return nil
	}
	if pairs && pairwise(c.Kind) {
		return nil // lane 0
	}
	b := &Built{Candidate: c}
	var err error
	if len(c.Channels) > 0 {
		b.Shares = slices.Repeat([]float64{1 / float64(len(c.Channels))}, len(c.Channels))
		err = b.overChannels()
	} else {
		b.Plan, b.Lanes, err = c.fixed()
	}
	if err != nil {
		return err
	}
	for _, k := range b.Plan.Links() {
		if lane := b.Lanes[k.Lane]; lane > 0 || !pairs {
			add(lane, k.Src, k.Dst)
		}
	}
	return nil
}

// AllServed returns the plans of a kind for all sizes and roots, in an order that is the
// same on all ranks.
func (p *Planner) AllServed(kind plan.Kind) ([]*Served, error) {
	t, err := p.table(kind)
	if err != nil {
		return nil, err
	}
	roots := 1
	if kind.HasRoot() {
		roots = p.graph.Ranks
	}
	var list []*Served
	if g := p.options.Given; g != nil && g.Plan().Kind == kind {
		list = append(list, g.served)
	}
	for _, e := range t {
		for root := range roots {
			s, err := p.serve(kind, root, e)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	return list, nil
}

// Range is the algorithm that runs a kind from a size on.
type Range struct {
	From      int64 // bytes
	Algorithm string
	Chunks    plan.Chunks
}

// Table returns what runs a kind, by rising size.
func (p *Planner) Table(kind plan.Kind) ([]Range, error) {
	t, err := p.table(kind)
	if err != nil {
		return nil, err
	}
	var list []Range
	from := int64(0)
	for _, e := range t {
		if n := len(list); n == 0 || list[n-1].Algorithm != e.Algorithm || list[n-1].Chunks != e.Chunks {
			list = append(list, Range{from, e.Algorithm, e.Chunks})
		}
		from = e.Below
	}
	return list, nil
}

// CandidateNames returns the names of the candidates for a kind.
func (p *Planner) CandidateNames(kind plan.Kind) []string {
	o, err := p.candidatesFor(kind, 0)
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range o.list {
		names = append(names, c.Name())
	}
	return names
}

// Supports reports why the algorithm that the options ask for has no plan for a kind and
// root, so that others are taken; nil where it has, or none is asked for.
func (p *Planner) Supports(kind plan.Kind, root int) error {
	if err := p.Runs(kind); err != nil {
		return err
	}
	o, err := p.candidatesFor(kind, max(root, 0))
	if err != nil {
		return err
	}
	suits := p.options.Suits()
	if g := p.options.Given; suits == nil || g.serves(kind, max(root, 0)) {
		return nil
	}
	for _, c := range o.list {
		if slices.ContainsFunc(suits, c.Matches) {
			return nil
		}
	}
	for _, w := range o.without {
		mine := func(name string) bool { return name == w.Algorithm || strings.HasPrefix(name, w.Algorithm+":") }
		if slices.ContainsFunc(suits, mine) {
			return because("%s has no plan for %v here: %s", w.Algorithm, kind, w.Why)
		}
	}
	return because("%s has no plan for %v here; there are %s",
		strings.Join(suits, ", "), kind, strings.Join(p.CandidateNames(kind), ", "))
}
