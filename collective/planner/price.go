package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
)

// Chunks that plans are priced with; the best counts. Small chunks fill deep trees
// sooner, large ones cost fewer system calls or kernels.
var (
	// Between hosts, with 8 KiB ranks on two cores took 1.5 times the processor time of
	// 32 KiB, and that was the limit. Four hosts on those cores, without limits between
	// them, took 117 us for a Broadcast of 32 KiB in four chunks, and 30 in one.
	hostChunks   = []plan.Chunks{{Max: 128 << 10, Min: 128 << 10}, {Max: 128 << 10}, {Max: 32 << 10}}
	localChunks  = []plan.Chunks{{}}
	deviceChunks = []plan.Chunks{{Min: 8 << 20}, {}, {Max: 512 << 10}, {Max: 256 << 10}, {Max: 128 << 10}}
)

// worthSmaller is the part of the time that smaller chunks must save: they take more of the processors, which others
// may need. Where lanes are unequal they need save none: a price then counts too little of the effects of other chunks.
// Eight hosts with one card at 87.5 % of 200 Mbit/s took 1.37 s for 16 MiB in chunks of one size, for which the price
// was 1.27, and 1.28 with as many in every lane, for which it was 1.25.
const worthSmaller = 0.015

// manyRanks is the number of ranks above which prices are rougher, and of fewer sizes.
const manyRanks = 32

// priced returns the limits of the work for a price: a few milliseconds, for many ranks some tens.
func (s *Site) priced() sim.Limits {
	if s.graph.Ranks > manyRanks {
		return sim.Limits{Steps: 4000, Chunks: 8}
	}
	return sim.Limits{Steps: 4000, Chunks: 32}
}

func (s *Site) chunkings() []plan.Chunks {
	switch {
	case s.machine.Device:
		return deviceChunks
	case s.hosts != nil:
		return hostChunks
	}
	return localChunks
}

// maxSteps is the largest number of steps, of all ranks with one chunk, with which plans are priced: with more the
// price takes longer than it could save. A requested algorithm has no alternative, so its plans are priced with more
// steps, to find the best of its own.
const (
	maxSteps      = 1 << 17
	maxStepsAsked = 8 * maxSteps
)

// longSteps bounds the run that a price follows from where lanes have unequally many chunks.
const longSteps = 1 << 16

// price returns the time of a message with a plan, in microseconds, and the chunks for it. Where the price is not below
// worse, any value that is not below worse may be returned; a plan without a price has +Inf.
func (p *Planner) price(b *ChosenPlan, bytes int64, worse float64) (us float64, chunks plan.Chunks, err error) {
	if p.Site.graph.Ranks == 1 {
		return 0, chunks, nil
	}
	us = math.Inf(1)
	share := widestShare(b.Plan, bytes)
	narrowest, widest := plan.Widths(b.Plan.Cuts())
	least := int64(float64(share) * float64(narrowest) / float64(widest))
	saves, uneven := worthSmaller, least < share*9/10
	if uneven {
		saves = 0
	}
	var before [2]int64
	for _, c := range p.Site.chunkings() {
		if c.Max > 0 {
			c.Max = min(c.Max, p.Site.slotBytes)
		}
		c.Min = min(c.Min, p.Site.slotBytes)
		size := [2]int64{min(int64(c.Of(share, widest, widest, p.Site.slotBytes)), max(share, 1))}
		size[1] = min(int64(c.Of(least, narrowest, widest, p.Site.slotBytes)), size[0])
		if size == before {
			continue // the same chunks
		}
		before = size
		most := p.Site.priced()
		if p.Site.hosts != nil && size[0] == size[1] && uneven {
			// The effect on the others when narrow lanes are done shows only in longer runs.
			steps, _ := sim.Weigh(b.Plan)
			most.Chunks = float64(8 * p.Site.slots)
			most.Steps = min(most.Chunks*steps, longSteps)
		}
		switch {
		case !math.IsInf(us, 1):
			most.Us = us
		case len(p.Site.chunkings()) == 1 && !math.IsInf(worse, 1):
			most.Us = worse
		case !math.IsInf(worse, 1):
			most.Us = 2 * worse // smaller chunks may yet be better
		}
		v, err := p.us(b, bytes, 1, c, most)
		if err != nil {
			return 0, chunks, err
		}
		if v > us*(1-saves) {
			if uneven {
				continue // smaller ones of all lanes may yet be
			}
			break // nor would even smaller ones be worth it
		}
		us, chunks = v, c
	}
	return us, chunks, nil
}

// us returns the time of inflight calls at once of a plan with the chunks c, in microseconds: +Inf where that is above
// a limit, where the plan has too many steps, and where it joins ranks that the graph does not.
func (p *Planner) us(b *ChosenPlan, bytes int64, inflight int, c plan.Chunks, most sim.Limits) (float64, error) {
	if p.Site.isLong(b.Plan) {
		return math.Inf(1), nil
	}
	us, err := p.pricer.Us(b.Plan, bytes, inflight, c, most)
	switch {
	case errors.Is(err, sim.ErrStopped):
		return 0, err
	case err != nil && pairwise(b.Plan.Kind) && p.Site.disconnected != nil:
		return math.Inf(1), nil
	case err != nil:
		return 0, fmt.Errorf("price of plan %s: %w", b.Plan.Name, err)
	}
	return us, nil
}

// StopBy sets a function that is called often while plans are priced. Once it returns true, a choice ends with
// sim.ErrStopped.
func (p *Planner) StopBy(stop func() bool) { p.pricer.Stop = stop }

// isLong reports whether a plan has too many steps for a price.
func (s *Site) isLong(of *plan.Plan) bool {
	limit := float64(maxSteps)
	if s.options.Algorithm != "" {
		limit = maxStepsAsked
	}
	steps, _ := sim.Weigh(of)
	return steps > limit
}

// Price predicts the time of inflight calls at once with messages of the given number of bytes each, in microseconds;
// NaN is no price.
func (p *Planner) Price(s *ChosenPlan, bytes int64, inflight int) (float64, error) {
	if p.Site.graph.Ranks == 1 {
		return 0, nil
	}
	us, err := p.us(s, bytes, inflight, s.Chunks, p.Site.priced())
	if math.IsInf(us, 1) {
		us = math.NaN()
	}
	return us, err
}

// ChunkBytes is the size of the chunks in which the widest lane of a plan moves its part of a message of the given
// number of bytes.
func (s *Site) ChunkBytes(c *ChosenPlan, bytes int64) int {
	return c.Chunks.Of(widestShare(c.Plan, bytes), 1, 1, s.slotBytes)
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
		us, _, err := p.price(b, bytes, math.Inf(1))
		if err != nil {
			return nil, err
		}
		list = append(list, Considered{Algorithm: c.Name(), PredictedUs: us})
	}
	slices.SortStableFunc(list, func(a, b Considered) int { return cmp.Compare(a.PredictedUs, b.PredictedUs) })
	return append(list, o.without...), nil
}

// Verify proves a plan that is served: every rank gets the right result, and none waits forever.
func (s *Site) Verify(c *ChosenPlan) error {
	err := plan.Verify(c.Plan, minSlots)
	if s.ordered(c.Plan.Kind) {
		err = plan.VerifyStable(c.Plan, s.graph.ByHost(), minSlots)
	}
	if err != nil {
		return fmt.Errorf("%v plan %s: %w", c.Plan.Kind, c.Plan.Name, err)
	}
	return nil
}
