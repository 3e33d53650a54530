package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
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
	c.PredictedUs, err = p.Prices.Predict(s, bytes, 1)
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
	other, err := p.Prices.cheapest(o.list, e.Bytes)
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
		return fmt.Sprintf("price, and within %g %% of the least by the fullest link", 100*p.Prices.nearly(bytes))
	}
	return "price"
}

// Consider prices all candidates for one size, the best first, followed by the reasons why the other algorithms have
// none.
func (p *Planner) Consider(kind plan.Kind, root int, bytes int64) ([]Considered, error) {
	o, err := p.candidatesFor(kind, max(root, 0))
	if err != nil {
		return nil, err
	}
	var list []Considered
	for _, c := range o.list {
		b, err := c.build(bytes)
		if err != nil {
			return nil, err
		}
		us, _, err := p.Prices.best(b, bytes, math.Inf(1))
		if err != nil {
			return nil, err
		}
		list = append(list, Considered{Algorithm: c.Name(), PredictedUs: us})
	}
	slices.SortStableFunc(list, func(a, b Considered) int { return cmp.Compare(a.PredictedUs, b.PredictedUs) })
	return append(list, o.without...), nil
}
