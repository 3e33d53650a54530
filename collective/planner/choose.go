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

// Sizes at which candidates are compared, in bytes. Larger messages take the best candidate for the largest.
const (
	minPriced = 8
	maxPriced = 512 << 20

	// Where cores copy and all links are equal, larger messages take no other plan.
	maxUniform = 1 << 20
)

// Choice is the plan for one size of message.
type Choice struct {
	Chosen      *ChosenPlan
	Bytes       int64
	PredictedUs float64 // NaN where it cannot be priced
	By          string  // the basis of the decision: the price, or a rule
}

// Considered is an algorithm that was not chosen, or the one that was.
type Considered struct {
	Algorithm   string
	PredictedUs float64 // +Inf: it cannot be priced
	Why         string  // it has no plan here, or was not tried
}

func joinReasons(list []Considered) string {
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

// Choose returns the plan of a call with a message of the given number of bytes, of all parts together where the kind
// has parts. A root below 0 means none, or 0.
func (p *Planner) Choose(kind plan.Kind, root int, bytes int64) (*Choice, error) {
	s, err := p.PlanFor(kind, root, bytes)
	if err != nil {
		return nil, err
	}
	c := &Choice{Chosen: s, Bytes: bytes}
	c.PredictedUs, err = p.Price(s, bytes, 1)
	if !p.Site.options.Given.serves(kind, root) {
		c.By = p.by(kind, bytes)
		return c, err
	}
	if c.By = "a plan file"; err != nil { // it joins ranks that the graph does not
		c.PredictedUs = math.NaN()
	}
	return c, nil
}

// PlanFor returns the plan that runs the calls of a kind and root with messages of the given number of bytes.
func (p *Planner) PlanFor(kind plan.Kind, root int, bytes int64) (*ChosenPlan, error) {
	at := 0
	if kind.HasRoot() {
		at = max(root, 0)
	}
	if g := p.Site.options.Given; g.serves(kind, at) {
		return g, nil
	}
	e, err := p.entry(kind, bytes)
	if err != nil {
		return nil, err
	}
	return p.planOf(kind, at, e)
}

// planOf returns the plan of an entry for a root, 0 where there is none.
func (p *Planner) planOf(kind plan.Kind, at int, e *entry) (*ChosenPlan, error) {
	if at < len(e.plans) && e.plans[at] != nil {
		return e.plans[at], nil
	}
	if at >= p.Site.graph.Ranks {
		return nil, fmt.Errorf("root %d is not a rank of 0..%d", at, p.Site.graph.Ranks-1)
	}
	c, chunks, err := p.fromRoot(kind, at, e)
	if err != nil {
		return nil, err
	}
	b, err := c.build(e.Bytes)
	if err != nil {
		return nil, err
	}
	for len(e.plans) <= at {
		e.plans = append(e.plans, nil)
	}
	e.plans[at] = b.cut(chunks)
	return e.plans[at], nil
}

// fromRoot returns the candidate of an entry for a root: the one chosen for root 0, or the cheapest where missing links
// of the graph leave another root without that one.
func (p *Planner) fromRoot(kind plan.Kind, root int, e *entry) (*Candidate, plan.Chunks, error) {
	o, err := p.candidatesFor(kind, root)
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

// by describes the rule or price that decides for a kind and a size.
func (p *Planner) by(kind plan.Kind, bytes int64) string {
	o, err := p.candidatesFor(kind, 0)
	if err != nil {
		return ""
	}
	if _, rule := p.byRule(kind, o, bytes); rule != "" {
		return "rule (" + rule + ")"
	}
	if bytes >= longPriced {
		return fmt.Sprintf("price, and within %g %% of the least by the fullest link", 100*p.Site.nearly(bytes))
	}
	return "price"
}

// widestShare returns the share of a message that the widest lane of a plan carries, in bytes.
func widestShare(p *plan.Plan, bytes int64) int64 {
	_, widest := sim.Weigh(p)
	return int64(float64(bytes) * widest)
}

// cheapest returns the choice of the candidate with the least price for a size: of those of
// nearly the same price the first. It prices those first that could be the quickest, and
// passes over others when they cannot win any more.
func (p *Planner) cheapest(list []*Candidate, bytes int64) (choice DecidedChoice, err error) {
	type bid struct {
		plan               *ChosenPlan
		fullest, least, us float64
		chunks             plan.Chunks
	}
	var bids []*bid
	if len(list) == 1 && len(p.Site.chunkings()) == 1 {
		return DecidedChoice{math.MaxInt64, bytes, list[0].Name(), p.Site.chunkings()[0]}, nil
	}
	for _, c := range list {
		b, err := c.build(bytes)
		if err != nil {
			return choice, err
		}
		fullest, least := 0.0, math.Inf(1)
		if bytes >= longPriced || !p.Site.isLong(b.Plan) {
			fullest, least, err = p.pricer.LeastUs(b.Plan, bytes, p.Site.chunkings()[0]) // the largest
		}
		if err != nil {
			return choice, err
		}
		bids = append(bids, &bid{plan: b, fullest: fullest, least: least, us: math.Inf(1)})
	}
	order := slices.Clone(bids)
	slices.SortStableFunc(order, func(a, b *bid) int { return cmp.Compare(a.least, b.least) })
	best, near := math.Inf(1), 1+p.Site.nearly(bytes)
	for _, b := range order {
		if b.least > best*near {
			break
		}
		if b.us, b.chunks, err = p.price(b.plan, bytes, best*near); err != nil {
			return choice, err
		}
		best = min(best, b.us)
	}
	var won *bid
	for _, b := range bids {
		if b.us <= best*near && (won == nil || bytes >= longPriced && b.fullest < won.fullest*(1-1e-9)) {
			won = b
		}
	}
	return DecidedChoice{math.MaxInt64, bytes, won.plan.Candidate.Name(), won.chunks}, nil
}

// longPriced is the size in bytes from which the price of a message is that of a part of
// it, drawn on, which is exact to some percent. Of prices so near to each other the one
// counts whose fullest link is the least full.
const longPriced = 16 << 20

// nearly is the relative difference within which prices are equal: between hosts they
// rest on rougher measurements.
func (s *Site) nearly(bytes int64) float64 {
	switch {
	case s.machine.Device && bytes >= longPriced:
		return 0.05
	case s.hosts != nil:
		return 0.02
	}
	return 0.001
}
