package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
)

// Sizes at which candidates are compared, in bytes: powers of 4. Larger messages take
// what is best for the largest.
const (
	minPriced = 8
	maxPriced = 512 << 20

	// Where cores copy larger messages take no other plan; where all links are alike
	// besides, those of some slots do not.
	maxLocal, maxUniform = 32 << 20, 1 << 20
)

// table is what runs a kind, by size, for all roots: the prices are those of root 0.
type table struct {
	choices []*entry
}

// entry is the candidate for messages below a size, in bytes.
type entry struct {
	below  int64
	bytes  int64 // the size that it was priced for first
	name   string
	chunks plan.Chunks
	us     float64 // the price of that size; NaN: there is none
	served []*Served
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
	PredictedUs float64 // NaN: it has no plan here, or was not tried
	Why         string  // then
}

func whys(list []Considered) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, c.Algorithm+": "+c.Why)
	}
	return strings.Join(parts, "; ")
}

// sizes returns the sizes that are priced, rising.
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
	for bytes := int64(minPriced); bytes <= most; bytes *= 4 {
		if len(list) > 0 && bound > list[len(list)-1] && bound < bytes {
			list = append(list, bound)
		}
		list = append(list, bytes)
	}
	if bound > most {
		list = append(list, bound)
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
	c := &Choice{Served: s, Bytes: bytes, By: p.by(kind)}
	if c.PredictedUs, err = p.Price(s, bytes, 1); err != nil && pairwise(kind) && p.apart != nil {
		c.PredictedUs, err = math.NaN(), nil // its parts pass between ranks without a link in the graph
	}
	return c, err
}

// Serve returns the plan that runs the calls of a kind and root with messages of so
// many bytes.
func (p *Planner) Serve(kind plan.Kind, root int, bytes int64) (*Served, error) {
	at := 0
	if kind.HasRoot() {
		at = max(root, 0)
	}
	if g := p.options.Given; g != nil && g.serves(kind, at) {
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
	b, err := c.build(e.bytes)
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
		return nil, e.chunks, err
	}
	named := func(name string) int {
		return slices.IndexFunc(o.list, func(c *Candidate) bool { return c.Name() == name })
	}
	at, chunks := named(e.name), e.chunks
	if at < 0 {
		other, err := p.cheapest(o.list, e.bytes)
		if err != nil {
			return nil, chunks, err
		}
		at, chunks = named(other.name), other.chunks
	}
	return o.list[at], chunks, nil
}

func (p *Planner) entry(kind plan.Kind, bytes int64) (*entry, error) {
	if p.tables[kind] == nil {
		t, err := p.fill(kind)
		if err != nil {
			return nil, err
		}
		p.tables[kind] = t
	}
	for _, e := range p.tables[kind].choices {
		if bytes < e.below {
			return e, nil
		}
	}
	return p.tables[kind].choices[len(p.tables[kind].choices)-1], nil
}

// rule names the rule that decides for a kind in place of the price; "" is none.
func (p *Planner) rule(kind plan.Kind, o *offer) string {
	star := slices.ContainsFunc(o.list, func(c *Candidate) bool { return c.Algorithm == "star" })
	switch {
	case p.graph.Ranks == 1 || len(o.list) == 1:
		return "only this one is offered here"
	case kind == plan.Barrier && star && p.sharesCores():
		return "ranks share cores, and rank 0 is to leave a barrier first"
	case pairwise(kind):
		return "parts of several chunks go side by side"
	}
	return ""
}

func (p *Planner) by(kind plan.Kind) string {
	o, err := p.offerOf(kind, 0)
	if err != nil {
		return ""
	}
	if rule := p.rule(kind, o); rule != "" {
		return "rule (" + rule + ")"
	}
	return "price"
}

// fill chooses for all sizes of a kind. It prices few sizes, and those between two of
// them only where they choose differently.
func (p *Planner) fill(kind plan.Kind) (*table, error) {
	o, err := p.offerOf(kind, 0)
	if err != nil {
		return nil, err
	}
	if t := p.byRule(kind, o); t != nil {
		return t, nil
	}
	sizes := p.sizes()
	if kind == plan.Barrier {
		sizes = []int64{0}
	}
	f := &filling{p: p, offer: o.list, sizes: sizes, best: make([]*entry, len(sizes))}
	if err := f.all(); err != nil {
		return nil, fmt.Errorf("%v: %w", kind, err)
	}
	t := &table{}
	for i, e := range f.best {
		if n := len(t.choices); n > 0 {
			last := t.choices[n-1]
			if last.name == e.name && last.chunks == e.chunks && f.same(last, e) {
				continue
			}
			last.below = sizes[i]
		}
		one := *e
		one.below = math.MaxInt64
		t.choices = append(t.choices, &one)
	}
	return t, nil
}

// byRule returns the table of a kind for which no price counts, nil where it does.
func (p *Planner) byRule(kind plan.Kind, o *offer) *table {
	one := func(c *Candidate, below int64) *entry {
		return &entry{below: below, bytes: minPriced, name: c.Name(), us: math.NaN()}
	}
	first, last := o.list[0], o.list[len(o.list)-1]
	switch {
	case p.graph.Ranks == 1 || len(o.list) == 1 && len(first.Strands) < 2 && p.hosts == nil && !p.machine.Device:
		return &table{[]*entry{one(first, math.MaxInt64)}}
	case kind == plan.Barrier && p.rule(kind, o) != "":
		for _, c := range o.list {
			if c.Algorithm == "star" || len(o.list) == 1 {
				return &table{[]*entry{one(c, math.MaxInt64)}}
			}
		}
	case pairwise(kind) && kind == plan.AllToAll && len(o.list) > 1:
		// In an AllToAll of parts that take several chunks nobody is to wait for the
		// slowest of the others.
		const chunk = 8 << 10
		return &table{[]*entry{one(first, chunk*int64(p.graph.Ranks)), one(last, math.MaxInt64)}}
	case pairwise(kind):
		return &table{[]*entry{one(first, math.MaxInt64)}}
	}
	return nil
}

// filling is a table being filled.
type filling struct {
	p     *Planner
	offer []*Candidate
	sizes []int64
	best  []*entry
}

// apart is how many sizes lie between two that are always priced.
const apart = 4

func (f *filling) all() error {
	last := len(f.sizes) - 1
	for i := 0; ; i = min(i+apart, last) {
		if err := f.try(i); err != nil {
			return err
		}
		if i > 0 {
			if err := f.between(max(0, (i-1)/apart*apart), i); err != nil {
				return err
			}
		}
		if i == last {
			break
		}
	}
	for i := last - 1; i >= 0; i-- { // a size stands for those up to the next one, too
		same, err := f.sameChunks(i)
		if err != nil {
			return err
		}
		if same {
			e := *f.best[i]
			e.chunks = f.best[i+1].chunks
			f.best[i] = &e
		}
	}
	return nil
}

func (f *filling) try(i int) (err error) {
	f.best[i], err = f.p.cheapest(f.offer, f.sizes[i])
	return err
}

func (f *filling) between(i, k int) error {
	if k-i < 2 {
		return nil
	}
	if f.best[i].name == f.best[k].name && f.best[i].chunks == f.best[k].chunks {
		for m := i + 1; m < k; m++ {
			e := *f.best[i]
			e.bytes, e.us = f.sizes[m], math.NaN()
			f.best[m] = &e
		}
		return nil
	}
	m := (i + k) / 2
	return cmp.Or(f.try(m), f.between(i, m), f.between(m, k))
}

// same reports whether two entries of one candidate have the same plan.
func (f *filling) same(a, b *entry) bool {
	for _, c := range f.offer {
		if c.Name() == a.name {
			x, err := c.build(a.bytes)
			y, failed := c.build(b.bytes)
			return err == nil && failed == nil && x == y
		}
	}
	return false
}

// sameChunks reports whether messages of size i have chunks of one size by their own
// choice and by that of the next size, which may allow larger ones of larger messages:
// then the price of this size says nothing for the one and against the other. On four
// hosts of 500 Mbit/s an AllReduce of 1 MiB took 27.7 ms in the chunks of 64 KiB that
// 512 KiB allowed, and 27.1 in those of 32 KiB that paid from 2 MiB on.
func (f *filling) sameChunks(i int) (bool, error) {
	a, b := f.best[i], f.best[i+1]
	if a.name != b.name || a.chunks == b.chunks || a.chunks.Min != b.chunks.Min {
		return false, nil
	}
	at := slices.IndexFunc(f.offer, func(c *Candidate) bool { return c.Name() == a.name })
	built, err := f.offer[at].build(a.bytes)
	if err != nil {
		return false, err
	}
	share, slot := widestShare(built.Plan, f.sizes[i]), f.p.slotBytes
	return a.chunks.Of(share, slot) == b.chunks.Of(share, slot), nil
}

// widestShare is what the widest lane of a plan carries of a message, in bytes.
func widestShare(p *plan.Plan, bytes int64) int {
	_, widest := sim.Weigh(p)
	return int(float64(bytes) * widest)
}

// cheapest returns the candidate with the least price for a size: of those of nearly the
// same price the first. It prices those first whose fullest link is the least full, and
// passes over others when they cannot win any more.
func (p *Planner) cheapest(list []*Candidate, bytes int64) (*entry, error) {
	list = p.allowed(list, bytes)
	built := make([]*Built, len(list))
	least := make([]float64, len(list))
	order := make([]int, len(list))
	for i, c := range list {
		var err error
		if built[i], err = c.build(bytes); err != nil {
			return nil, err
		}
		if least[i], err = p.leastUs(built[i], bytes); err != nil {
			return nil, err
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(least[i], least[k]) })
	best := math.Inf(1)
	entries := make([]entry, len(list))
	for _, i := range order {
		entries[i].us = math.Inf(1)
		if least[i] > best*(1+p.nearly(bytes)) {
			continue
		}
		us, chunks, err := p.price(built[i], bytes, best*(1+p.nearly(bytes)))
		if err != nil {
			return nil, err
		}
		entries[i] = entry{bytes: bytes, name: list[i].Name(), us: us, chunks: chunks}
		best = min(best, us)
	}
	won := -1
	for i := range entries {
		if entries[i].us <= best*(1+p.nearly(bytes)) && (won < 0 || bytes >= longPriced && least[i] < least[won]*(1-1e-9)) {
			won = i
		}
	}
	if won < 0 {
		return nil, fmt.Errorf("no candidate has a price for %d bytes", bytes)
	}
	return &entries[won], nil
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
