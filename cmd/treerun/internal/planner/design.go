package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/pack"
)

// design is a plan for one size of message, with what is known of it.
type design struct {
	*candidate
	bytes       int64
	shares      []float64 // by strand, sum 1
	plan        *plan.Plan
	predictedUs float64
}

// rate is what all strands together do.
func (c *candidate) rate() float64 {
	sum := 0.0
	for i := range c.strands {
		sum += c.strands[i].rate
	}
	return sum
}

// rates returns the rates and the latencies of all strands.
func (c *candidate) rates() (rates, latenciesUs []float64) {
	for i := range c.strands {
		rates = append(rates, c.strands[i].rate)
		latenciesUs = append(latenciesUs, c.strands[i].latencyUs)
	}
	return rates, latenciesUs
}

// quickest is the strand that ends first when it has the whole message and all
// links for itself.
func (c *candidate) quickest(bytes float64) int {
	best, least := 0, math.Inf(1)
	for i := range c.strands {
		s := &c.strands[i]
		if t := s.latencyUs + bytes/(s.alone*1e3); t < least*(1-1e-12) {
			best, least = i, t
		}
	}
	return best
}

// crossover is the size in bytes above which all strands together are quicker
// than any one alone; +Inf when that never comes to pass.
func (c *candidate) crossover() float64 {
	if c.ofParts() {
		return c.partCrossover()
	}
	rates, latencies := c.rates()
	order := make([]int, len(c.strands)) // by latency, of equals the widest first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := &c.strands[i], &c.strands[j]
		return cmp.Or(cmp.Compare(x.latencyUs, y.latencyUs), cmp.Compare(y.alone, x.alone))
	})
	most, widest := 0.0, 0.0
	for _, i := range order {
		s := &c.strands[i]
		if s.alone <= widest*(1+1e-12) {
			continue // one that is no slower and no later beats it at every size
		}
		widest = s.alone
		most = max(most, pack.ArrayBound(s.alone, s.latencyUs, rates, latencies))
	}
	return most
}

// share divides a message of so many bytes among the strands.
func (c *candidate) share(bytes int64, arrayBound size) []float64 {
	if c.ofParts() {
		return c.shareParts(bytes, arrayBound)
	}
	bound := float64(arrayBound)
	if arrayBound == 0 {
		bound = c.crossover()
	}
	shares := make([]float64, len(c.strands))
	if float64(bytes) <= bound || len(shares) == 1 {
		shares[c.quickest(float64(bytes))] = 1
		return shares
	}
	rates, latencies := c.rates()
	parts, _ := pack.Shares(rates, latencies, float64(bytes))
	for i, p := range parts {
		shares[i] = p / float64(bytes)
	}
	return shares
}

// design makes the plan of a candidate for a message and prices it.
func (r *request) design(c *candidate, bytes int64) (*design, error) {
	d := &design{candidate: c, bytes: bytes, shares: c.share(bytes, r.arrayBound)}
	var err error
	if d.plan, err = r.plan(d); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", c.algorithm, title(r.g), err)
	}
	d.predictedUs, err = d.price(r, 1)
	return d, err
}

// plan builds the plan of the strands that have a share.
func (r *request) plan(d *design) (*plan.Plan, error) {
	o := plan.Options{Form: plan.Split}
	var used []strand
	var weights []float64
	for i, s := range d.strands {
		if d.shares[i] > 0 {
			used, weights = append(used, s), append(weights, d.shares[i])
		}
	}
	if used[0].ring != nil {
		var orders [][]int
		for _, s := range used {
			orders = append(orders, s.ring)
		}
		return plan.FromRings(r.kind, orders, weights, max(r.planRoot(), 0), o)
	}
	if d.ofParts() {
		return plan.FromPartTrees(r.kind, trees(used), weights, o)
	}
	return plan.FromTrees(r.kind, trees(used), weights, o)
}

// mostVerified is the number of ranks up to which a printed plan is verified.
const mostVerified = 64

// verify runs the plan with symbols for data.
func (d *design) verify() error {
	if d.plan.Size > mostVerified {
		return nil
	}
	return plan.Verify(d.plan, 2)
}

// leastUs is the time for which a candidate holds its fullest link or port with
// a message: no price of it is lower.
func (r *request) leastUs(c *candidate, bytes int64) float64 {
	return float64(bytes) * r.meter.fullest(c.strands, c.share(bytes, r.arrayBound), r.kind, r.planRoot()) / 1e3
}

// cheapest returns the design of the candidate with the lowest predicted time
// for a message; of equal ones the first. It prices those first that could be
// the quickest, and passes over the others when they cannot be any more.
func (r *request) cheapest(list []candidate, bytes int64) (*design, error) {
	least := make([]float64, len(list))
	order := make([]int, len(list))
	for i := range list {
		order[i] = i
		if len(list) > 1 {
			least[i] = r.leastUs(&list[i], bytes)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(least[i], least[j]) })
	var best *design
	at := 0
	for _, i := range order {
		if best != nil && least[i] > best.predictedUs*(1+equal) {
			break
		}
		d, err := r.design(&list[i], bytes)
		if err != nil {
			return nil, err
		}
		if best == nil || d.predictedUs < best.predictedUs*(1-equal) || i < at && d.predictedUs <= best.predictedUs*(1+equal) {
			best, at = d, i
		}
	}
	return best, nil
}

// equal is the relative difference within which two predicted times are equal.
const equal = 1e-9
