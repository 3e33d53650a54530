package planner

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/treerun/treerun/collective/plan"
)

// Sizes at which candidates are compared, in bytes. Larger messages take the best candidate for the largest.
const (
	minPriced = 8
	maxPriced = 512 << 20

	// Where cores copy and all links are equal, larger messages take no other plan.
	maxUniform = 1 << 20
)

// table holds the choices for a kind by size of message.
type table struct {
	kind   plan.Kind
	finder *finder
	sizes  []int64                 // that are always priced, rising
	near   float64                 // between sizes that choose differently others are priced down to this ratio
	ranges []*Range                // by rising size; others are found when a message of such a size is first called
	priced map[int64]DecidedChoice // by size, for root 0
}

// Range is the choice for messages from a size on and below another. It is for all roots: the prices are those of root
// 0.
type Range struct {
	DecidedChoice
	plans []*ChosenPlan // by root
}

// newTable returns an empty table: the more ranks, the longer takes a price, and the fewer sizes are priced.
func newTable(kind plan.Kind, f *finder) *table {
	t := &table{kind: kind, finder: f, near: 1.2, priced: make(map[int64]DecidedChoice)}
	s, step, most := f.site, int64(4), int64(maxPriced)
	switch n := s.graph.Ranks; {
	case n > manyRanks:
		step, t.near = 16, 4
	case n > directRanks:
		t.near = 2
	}
	if s.uniform && s.hosts == nil && !s.machine.Device {
		most = maxUniform
	}
	if kind == plan.Barrier {
		t.sizes = []int64{0}
		return t
	}
	for bytes := int64(minPriced); bytes <= most; bytes *= step {
		t.sizes = append(t.sizes, bytes)
	}
	return t
}

// rangeOf returns the choice for messages of a size.
func (t *table) rangeOf(bytes int64) (*Range, error) {
	at := 0
	for at < len(t.ranges) && t.ranges[at].Below <= bytes {
		at++
	}
	if at < len(t.ranges) && t.ranges[at].From <= bytes {
		return t.ranges[at], nil
	}
	e, err := t.find(bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t.kind, err)
	}
	if at > 0 { // none has the sizes of another
		e.From = max(e.From, t.ranges[at-1].Below)
	}
	if at < len(t.ranges) {
		e.Below = min(e.Below, t.ranges[at].From)
	}
	t.ranges = slices.Insert(t.ranges, at, e)
	return e, nil
}

// all returns the choices for all sizes.
func (t *table) all() (list []*Range, err error) {
	for bytes := int64(0); bytes < math.MaxInt64; bytes = list[len(list)-1].Below {
		e, err := t.rangeOf(bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// find chooses for messages of about a size: between the nearest of the sizes that are
// always priced it prices others, until it is known where the choice changes, or the plan
// with the shares of its trees.
func (t *table) find(bytes int64) (*Range, error) {
	set, err := t.finder.candidates(t.kind, 0)
	if err != nil {
		return nil, err
	}
	if e, _ := t.byRule(set, bytes); e != nil {
		return e, nil
	}
	if e := t.takenOver(set, bytes); e != nil {
		return e, nil
	}
	next := sort.Search(len(t.sizes), func(i int) bool { return t.sizes[i] > bytes })
	next = max(next, 1) // the first is for smaller messages, too
	low, err := t.pricedAt(set, t.sizes[next-1])
	if err != nil {
		return nil, err
	}
	e := &Range{DecidedChoice: low}
	if next > 1 {
		e.From = low.Bytes
	}
	if next == len(t.sizes) {
		return e, nil
	}
	high, err := t.pricedAt(set, t.sizes[next])
	for err == nil {
		e.Below = high.Bytes
		between := int64(math.Sqrt(float64(e.Bytes) * float64(high.Bytes)))
		between &^= max(minPriced, int64(1)<<bits.Len64(uint64(between))>>3) - 1 // few digits
		near := float64(high.Bytes) < t.near*float64(between) || between <= e.Bytes
		if near || set.same(&e.DecidedChoice, &high) {
			return e, nil
		}
		middle := DecidedChoice{between, math.MaxInt64, between, high.Algorithm, high.Chunks}
		if e.Algorithm != high.Algorithm || e.Chunks != high.Chunks {
			middle, err = t.pricedAt(set, between)
			middle.From = between
		}
		if bytes < between {
			high = middle
		} else {
			e.DecidedChoice = middle
		}
	}
	return nil, err
}

// pricedAt returns the cheapest choice for a size, priced once.
func (t *table) pricedAt(set *candidateSet, bytes int64) (DecidedChoice, error) {
	if c, ok := t.priced[bytes]; ok {
		return c, nil
	}
	c, err := t.finder.prices.cheapest(set.list, bytes)
	if err == nil {
		t.priced[bytes] = c
	}
	return c, err
}

// byRule returns the choice for a size for which no price counts, and the rule
// that decides; "" is none.
func (t *table) byRule(set *candidateSet, bytes int64) (*Range, string) {
	s, first, last := t.finder.site, set.list[0], set.list[len(set.list)-1]
	always := func(c *Candidate) *Range {
		e := &Range{DecidedChoice: DecidedChoice{Below: math.MaxInt64, Bytes: minPriced, Algorithm: c.Name()}}
		if x := t.finder.prices.chunkings; len(x) == 1 {
			e.Chunks = x[0]
		}
		return e
	}
	const only, sideBySide = "only this one is offered here", "parts of several chunks go side by side"
	star := slices.IndexFunc(set.list, func(c *Candidate) bool { return c.Algorithm == "star" })
	switch {
	case s.graph.Ranks == 1 || first == last &&
		(t.kind == plan.Barrier || len(first.Channels) < 2 && s.hosts == nil && !s.machine.Device):
		return always(first), only
	case t.kind == plan.Barrier && star >= 0 && s.sharesCores():
		return always(set.list[star]), "ranks share cores, and rank 0 is to leave a barrier first"
	case t.kind == plan.AllToAll && first != last:
		// In an AllToAll of parts that take several chunks no rank should wait for the slowest of the others.
		chunk := 8 << 10 * int64(s.graph.Ranks)
		e := always(first)
		if e.Below = chunk; bytes >= chunk {
			e = always(last)
			e.From = chunk
		}
		return e, sideBySide
	case pairwise(t.kind):
		return always(first), only
	case t.kind.Scans() && s.disconnected != nil:
		return always(last), "ranks without links in the graph have no price"
	case first == last:
		return nil, only // the price chooses its chunks
	}
	return nil, ""
}

// by describes the rule or price that decides for a size.
func (t *table) by(bytes int64) string {
	set, err := t.finder.candidates(t.kind, 0)
	if err != nil {
		return ""
	}
	if _, rule := t.byRule(set, bytes); rule != "" {
		return "rule (" + rule + ")"
	}
	if t.takenOver(set, bytes) != nil {
		return fmt.Sprintf("price for the %d ranks of an earlier epoch", t.finder.earlier.Ranks)
	}
	if bytes >= longPriced {
		near := 100 * t.finder.prices.nearly()
		return fmt.Sprintf("price, and within %g %% of the least by the fullest link", near)
	}
	return "price"
}

// planOf returns the plan of a range for a root, 0 where there is none.
func (t *table) planOf(root int, e *Range) (*ChosenPlan, error) {
	if root < len(e.plans) && e.plans[root] != nil {
		return e.plans[root], nil
	}
	if n := t.finder.site.graph.Ranks; root >= n {
		return nil, fmt.Errorf("root %d is not a rank of 0..%d", root, n-1)
	}
	set, err := t.finder.candidates(t.kind, root)
	if err != nil {
		return nil, err
	}
	c, chunks := set.named(e.Algorithm), e.Chunks
	if c == nil { // for lack of links: the cheapest of those that this root has
		other, err := t.finder.prices.cheapest(set.list, e.Bytes)
		if err != nil {
			return nil, err
		}
		c, chunks = set.named(other.Algorithm), other.Chunks
	}
	p, err := c.build(e.Bytes)
	if err != nil {
		return nil, err
	}
	for len(e.plans) <= root {
		e.plans = append(e.plans, nil)
	}
	e.plans[root] = p.cut(chunks)
	return e.plans[root], nil
}

// follow takes over another rank's choices: rising sizes, up to the largest, and algorithms that the
// kind has here.
func (t *table) follow(choices []DecidedChoice) error {
	set, err := t.finder.candidates(t.kind, 0)
	if err != nil {
		return err
	}
	var ranges []*Range
	before := int64(-1)
	for _, c := range choices {
		if c.Below <= before || c.Bytes < 0 || c.Bytes > c.Below {
			return fmt.Errorf("sizes below %d after those below %d", c.Below, before)
		}
		c.From = max(before, 0)
		ranges = append(ranges, &Range{DecidedChoice: c})
		before = c.Below
		if err := c.Chunks.Check(); err != nil {
			return err
		}
		if set.named(c.Algorithm) == nil {
			return fmt.Errorf("%v from root 0 has no plan by algorithm %s", t.kind, c.Algorithm)
		}
	}
	if before != math.MaxInt64 {
		return fmt.Errorf("sizes end at %d", before)
	}
	t.ranges = ranges
	return nil
}
