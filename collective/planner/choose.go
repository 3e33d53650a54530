package planner

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
)

// Sizes at which candidates are compared, in bytes. Larger messages take what is best for
// the largest.
const (
	minPriced = 8
	maxPriced = 512 << 20

	// Where cores copy larger messages take no other plan; where all links are alike
	// besides, those of some slots do not.
	maxLocal, maxUniform = 32 << 20, 1 << 20
)

// entry is the candidate for messages below a size. The entries of a kind, by rising
// size, are for all roots: the prices are those of root 0.
type entry struct {
	DecidedChoice
	served []*Served // by root
}

// Served is a plan for the calls of a kind and root, of some sizes, and how these cut
// their messages. The same pointer comes back for the same calls.
type Served struct {
	*Built
	Chunks   plan.Chunks
	Attached any // the caller's, who makes something of the plan once
}

// Choice is the plan for one size of message.
type Choice struct {
	*Served
	Bytes       int64
	PredictedUs float64 // NaN where it cannot be priced
	By          string  // what decided: the price, or which rule
}

// Considered is an algorithm that was not chosen, or the one that was.
type Considered struct {
	Algorithm   string
	PredictedUs float64 // +Inf: it cannot be priced
	Why         string  // it has no plan here, or was not tried
}

func whys(list []Considered) string {
	var reasons []string
	names := map[string][]string{} // by reason
	for _, c := range list {
		if names[c.Why] == nil {
			reasons = append(reasons, c.Why)
		}
		names[c.Why] = append(names[c.Why], c.Algorithm)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(names[why], ", ") + ": " + why
	}
	return strings.Join(reasons, "; ")
}

// steps returns the ratio of the sizes that are always priced, and the least ratio of two
// between which others are where they choose differently: the more ranks, the longer
// takes a price.
func (p *Planner) steps() (always int64, near float64) {
	n := p.graph.Ranks
	if p.slim != nil {
		n = len(p.hosts.ranks)
	}
	switch {
	case n <= directRanks:
		return 4, 1.2
	case n <= slimRanks:
		return 4, 2
	}
	return 16, 4
}

// sizes returns the sizes that are always priced, rising.
func (p *Planner) sizes() []int64 {
	var list []int64
	bound := p.options.ArrayBound
	most := int64(maxPriced)
	switch {
	case p.hosts != nil || p.machine.Device:
	case p.uniform:
		most = maxUniform
	default:
		most = maxLocal
	}
	step, _ := p.steps()
	for bytes := int64(minPriced); bytes <= most; bytes *= step {
		list = append(list, bytes)
	}
	if at, found := slices.BinarySearch(list, bound); at > 0 && !found {
		list = slices.Insert(list, at, bound)
	}
	return list
}

// Choose returns the plan of a call with a message of so many bytes, of all parts
// together where the kind has parts. A root below 0 means none, or 0.
func (p *Planner) Choose(kind plan.Kind, root int, bytes int64) (*Choice, error) {
	s, err := p.Serve(kind, root, bytes)
	if err != nil {
		return nil, err
	}
	c := &Choice{Served: s, Bytes: bytes, By: p.by(kind, bytes)}
	c.PredictedUs, err = p.Price(s, bytes, 1)
	return c, err
}

// Serve returns the plan that runs the calls of a kind and root with messages of so
// many bytes.
func (p *Planner) Serve(kind plan.Kind, root int, bytes int64) (*Served, error) {
	at := 0
	if kind.HasRoot() {
		at = max(root, 0)
	}
	if g := p.options.Given; g.serves(kind, at) {
		g.used = true
		return g.served, nil
	}
	e, err := p.entry(kind, bytes)
	if err != nil {
		return nil, err
	}
	return p.serve(kind, at, e)
}

// serve returns the plan of an entry for a root, 0 where there is none.
func (p *Planner) serve(kind plan.Kind, at int, e *entry) (*Served, error) {
	if at < len(e.served) && e.served[at] != nil {
		return e.served[at], nil
	}
	if at >= p.graph.Ranks {
		return nil, fmt.Errorf("root %d is not a rank of 0..%d", at, p.graph.Ranks-1)
	}
	c, chunks, err := p.fromRoot(kind, at, e)
	if err != nil {
		return nil, err
	}
	b, err := c.build(e.Bytes)
	if err != nil {
		return nil, err
	}
	if e.served == nil {
		n := 1
		if kind.HasRoot() {
			n = p.graph.Ranks
		}
		e.served = make([]*Served, n)
	}
	e.served[at] = &Served{Built: b, Chunks: chunks}
	return e.served[at], nil
}

// fromRoot returns the candidate of an entry for a root: what was chosen for root 0, or
// the cheapest where links that the graph does not have leave another root without that.
func (p *Planner) fromRoot(kind plan.Kind, root int, e *entry) (*Candidate, plan.Chunks, error) {
	o, err := p.offerOf(kind, root)
	if err != nil {
		return nil, e.Chunks, err
	}
	if c := named(o.list, e.Algorithm); c != nil {
		return c, e.Chunks, nil
	}
	other, err := p.cheapest(o.list, e.Bytes)
	if err != nil {
		return nil, e.Chunks, err
	}
	return named(o.list, other.Algorithm), other.Chunks, nil
}

func (p *Planner) entry(kind plan.Kind, bytes int64) (*entry, error) {
	if p.tables[kind] == nil {
		t, err := p.fill(kind)
		if err != nil {
			return nil, err
		}
		p.tables[kind] = t
	}
	t := p.tables[kind]
	at := slices.IndexFunc(t[:len(t)-1], func(e *entry) bool { return bytes < e.Below })
	if at < 0 {
		at = len(t) - 1
	}
	return t[at], nil
}

// by says what decides for a kind and a size.
func (p *Planner) by(kind plan.Kind, bytes int64) string {
	o, err := p.offerOf(kind, 0)
	if err != nil {
		return ""
	}
	if _, rule := p.byRule(kind, o); rule != "" {
		return "rule (" + rule + ")"
	}
	if bytes >= longPriced {
		return fmt.Sprintf("price, and within %g %% of the least by the fullest link", 100*p.nearly(bytes))
	}
	return "price"
}

// byRule returns the entries of a kind for which no price counts, and the rule that
// decides; "" is none.
func (p *Planner) byRule(kind plan.Kind, o *offer) ([]*entry, string) {
	below := func(size int64, c *Candidate) *entry {
		return &entry{DecidedChoice: DecidedChoice{Below: size, Bytes: minPriced, Algorithm: c.Name()}}
	}
	all := func(c *Candidate) []*entry { return []*entry{below(math.MaxInt64, c)} }
	const only, sideBySide = "only this one is offered here", "parts of several chunks go side by side"
	first, last := o.list[0], o.list[len(o.list)-1]
	star := slices.IndexFunc(o.list, func(c *Candidate) bool { return c.Algorithm == "star" })
	switch {
	case p.graph.Ranks == 1 || first == last && (kind == plan.Barrier || len(first.Strands) < 2 && p.hosts == nil && !p.machine.Device):
		return all(first), only
	case kind == plan.Barrier && star >= 0 && p.sharesCores():
		return all(o.list[star]), "ranks share cores, and rank 0 is to leave a barrier first"
	case kind == plan.AllToAll && first != last:
		// In an AllToAll of parts that take several chunks nobody is to wait for the
		// slowest of the others.
		const chunk = 8 << 10
		return append([]*entry{below(chunk*int64(p.graph.Ranks), first)}, all(last)...), sideBySide
	case pairwise(kind):
		return all(first), only
	case first == last:
		return nil, only // the price chooses its chunks
	}
	return nil, ""
}

// fill chooses for all sizes of a kind.
func (p *Planner) fill(kind plan.Kind) ([]*entry, error) {
	o, err := p.offerOf(kind, 0)
	if err != nil {
		return nil, err
	}
	t, _ := p.byRule(kind, o)
	if t != nil {
		return t, nil
	}
	sizes := p.sizes()
	if kind == plan.Barrier {
		sizes = []int64{0}
	}
	for _, bytes := range sizes {
		e, err := p.cheapest(o.list, bytes)
		if err == nil {
			t, err = p.upTo(t, e, o.list)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", kind, err)
		}
	}
	t = slices.CompactFunc(t, func(a, b *entry) bool { return a.same(b, o.list) })
	for i, e := range t[1:] {
		t[i].Below = e.Bytes
	}
	return t, nil
}

// upTo adds the choice for the next size, and for sizes before it until it is known where
// the choice changes, or the plan with the shares of its trees.
func (p *Planner) upTo(t []*entry, e *entry, list []*Candidate) ([]*entry, error) {
	if len(t) == 0 {
		return []*entry{e}, nil
	}
	last := t[len(t)-1]
	between := int64(math.Sqrt(float64(last.Bytes) * float64(e.Bytes)))
	between &^= max(minPriced, int64(1)<<bits.Len64(uint64(between))>>3) - 1 // few digits
	_, near := p.steps()
	if last.same(e, list) || float64(e.Bytes) < near*float64(between) || between <= last.Bytes {
		return append(t, e), nil
	}
	m := &entry{DecidedChoice: DecidedChoice{math.MaxInt64, between, e.Algorithm, e.Chunks}}
	var err error
	if last.Algorithm != e.Algorithm || last.Chunks != e.Chunks {
		m, err = p.cheapest(list, between)
	}
	if err == nil {
		t, err = p.upTo(t, m, list)
	}
	if err != nil {
		return nil, err
	}
	return p.upTo(t, e, list)
}

// same reports whether two entries have the same plan and chunks.
func (e *entry) same(o *entry, list []*Candidate) bool {
	if e.Algorithm != o.Algorithm || e.Chunks != o.Chunks {
		return false
	}
	c := named(list, e.Algorithm)
	x, err := c.build(e.Bytes)
	y, failed := c.build(o.Bytes)
	return err == nil && failed == nil && x == y
}

// widestShare is what the widest lane of a plan carries of a message, in bytes.
func widestShare(p *plan.Plan, bytes int64) int {
	_, widest := sim.Weigh(p)
	return int(float64(bytes) * widest)
}

// cheapest returns the choice of the candidate with the least price for a size: of those of
// nearly the same price the first. It prices those first whose fullest link is the least
// full, and passes over others when they cannot win any more.
func (p *Planner) cheapest(list []*Candidate, bytes int64) (*entry, error) {
	type bid struct {
		*Built
		least, us float64
		chunks    plan.Chunks
	}
	var bids []*bid
	list = p.allowed(list, bytes)
	if len(list) == 1 && len(p.chunkings()) == 1 {
		return &entry{DecidedChoice: DecidedChoice{math.MaxInt64, bytes, list[0].Name(), p.chunkings()[0]}}, nil
	}
	for _, c := range list {
		b, err := c.build(bytes)
		if err != nil {
			return nil, err
		}
		least, err := p.leastUs(b, bytes)
		if err != nil {
			return nil, err
		}
		bids = append(bids, &bid{Built: b, least: least, us: math.Inf(1)})
	}
	order := slices.Clone(bids)
	slices.SortStableFunc(order, func(a, b *bid) int { return cmp.Compare(a.least, b.least) })
	best, near := math.Inf(1), 1+p.nearly(bytes)
	for _, b := range order {
		if b.least > best*near {
			break
		}
		var err error
		if b.us, b.chunks, err = p.price(b.Built, bytes, best*near); err != nil {
			return nil, err
		}
		best = min(best, b.us)
	}
	var won *bid
	for _, b := range bids {
		if b.us <= best*near && (won == nil || bytes >= longPriced && b.least < won.least*(1-1e-9)) {
			won = b
		}
	}
	return &entry{DecidedChoice: DecidedChoice{math.MaxInt64, bytes, won.Name(), won.chunks}}, nil
}

// longPriced is the size in bytes from which the price of a message is that of a part of
// it, drawn on, which is exact to some percent. Of prices so near to each other the one
// counts whose fullest link is the least full.
const longPriced = 16 << 20

// nearly is the relative difference within which prices are equal: between hosts they
// rest on rougher measurements.
func (p *Planner) nearly(bytes int64) float64 {
	switch {
	case p.machine.Device && bytes >= longPriced:
		return 0.05
	case p.hosts != nil:
		return 0.02
	}
	return 0.001
}

// allowed leaves out what the array bound forbids for a size.
func (p *Planner) allowed(list []*Candidate, bytes int64) []*Candidate {
	if p.options.ArrayBound == 0 {
		return list
	}
	one := bytes < p.options.ArrayBound
	kept := slices.DeleteFunc(slices.Clone(list), func(c *Candidate) bool {
		return len(c.Strands) > 1 && !c.OfParts() && (c.Variant == variantOne) != one
	})
	if len(kept) == 0 {
		return list
	}
	return kept
}
