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
	hostChunks  = []plan.Chunks{{Max: 128 << 10, Min: 128 << 10}, {Max: 128 << 10}, {Max: 32 << 10}}
	localChunks = []plan.Chunks{{}}
	// Ranks that share cores run ahead by as many calls as fit into the slots, and then wait for the others to get a
	// core. Four on two cores, back to back, in chunks of 8 and 16 KiB: Broadcast of 32 KiB 14.8 and 7.9 us.
	sharedChunks = []plan.Chunks{{Min: 16 << 10}}
	deviceChunks = []plan.Chunks{{Min: 8 << 20}, {}, {Max: 1 << 20}, {Max: 512 << 10}, {Max: 256 << 10}, {Max: 128 << 10}}
)

// worthSmaller is the part of the time that smaller chunks must save: they take more of the processors, which others
// may need. Where lanes are unequal they need save none: a price then counts too little of the effects of other chunks.
// Eight hosts with one card at 87.5 % of 200 Mbit/s took 1.37 s for 16 MiB in chunks of one size, for which the price
// was 1.27, and 1.28 with as many in every lane, for which it was 1.25.
const worthSmaller = 0.015

// manyRanks is the number of ranks above which prices are rougher, and of fewer sizes.
const manyRanks = 32

// maxSteps is the largest number of steps, of all ranks with one chunk, with which plans are priced: with more the
// price takes longer than it could save. A requested algorithm has no alternative, so its plans are priced with more
// steps, to find the best of its own.
const (
	maxSteps      = 1 << 17
	maxStepsAsked = 8 * maxSteps
)

// longSteps bounds the run that a price follows from where lanes have unequally many chunks.
const longSteps = 1 << 16

// longPriced is the size in bytes from which the price of a message is that of a part of
// it, drawn on, which is exact to some percent. Of prices so near to each other the one
// counts whose fullest link is the least full.
const longPriced = 16 << 20

// Prices predicts the times and rates of plans on a site, by package sim, which keeps the runs that it has simulated.
type Prices struct {
	site      *Site
	made      *sim.Pricer // nil until there is a price
	stop      func() bool
	chunkings []plan.Chunks
	limits    sim.Limits // of the work for a price: a few milliseconds, for many ranks some tens
	maxSteps  float64
}

func newPrices(s *Site) *Prices {
	x := &Prices{site: s, chunkings: localChunks,
		limits: sim.Limits{Steps: 4000, Chunks: 32}, maxSteps: maxSteps}
	switch {
	case s.machine.Device:
		x.chunkings = deviceChunks
	case s.hosts != nil:
		x.chunkings = hostChunks
	case s.sharesCores():
		x.chunkings = sharedChunks
	}
	if s.graph.Ranks > manyRanks {
		x.limits.Chunks = 8
	}
	if s.options.Algorithm != "" {
		x.maxSteps = maxStepsAsked
	}
	return x
}

// pricer returns what prices follow from.
func (x *Prices) pricer() *sim.Pricer {
	if x.made == nil {
		x.made = sim.NewPricer(x.site.full(), x.site.ways(), x.site.costs)
		x.made.Stop = x.stop
	}
	return x.made
}

// Predict returns the time of inflight calls at once with messages of the given number of bytes each, in microseconds;
// NaN is no price.
func (x *Prices) Predict(s *ChosenPlan, bytes int64, inflight int) (float64, error) {
	if x.site.graph.Ranks == 1 {
		return 0, nil
	}
	us, err := x.run(s, bytes, inflight, s.Chunks, x.limits)
	if math.IsInf(us, 1) {
		us = math.NaN()
	}
	return us, err
}

// cheapest returns the choice of the candidate with the least price for a size: of those of
// nearly the same price the first. It prices those first that could be the quickest, and
// passes over others when they cannot win any more.
func (x *Prices) cheapest(list []*Candidate, bytes int64) (choice DecidedChoice, err error) {
	type bid struct {
		plan               *ChosenPlan
		fullest, least, us float64
		chunks             plan.Chunks
	}
	var bids []*bid
	if len(list) == 1 && len(x.chunkings) == 1 {
		return DecidedChoice{0, math.MaxInt64, bytes, list[0].Name(), x.chunkings[0]}, nil
	}
	for _, c := range list {
		b, err := c.build(bytes)
		if err != nil {
			return choice, err
		}
		fullest, least := 0.0, math.Inf(1)
		if bytes >= longPriced || !x.isLong(b.Plan) {
			fullest, least, err = x.pricer().LeastUs(b.Plan, bytes, x.chunkings[0]) // the largest
		}
		if err != nil {
			return choice, err
		}
		bids = append(bids, &bid{plan: b, fullest: fullest, least: least, us: math.Inf(1)})
	}
	order := slices.Clone(bids)
	slices.SortStableFunc(order, func(a, b *bid) int { return cmp.Compare(a.least, b.least) })
	best, near := math.Inf(1), 1+x.nearly()
	for _, b := range order {
		if b.least > best*near {
			break
		}
		if b.us, b.chunks, err = x.price(b.plan, bytes, best*near); err != nil {
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
	return DecidedChoice{0, math.MaxInt64, bytes, won.plan.Candidate.Name(), won.chunks}, nil
}

// price returns the time of a message with a plan, in microseconds, and the chunks for it. Where the price is not below
// worse, any value that is not below worse may be returned; a plan without a price has +Inf.
func (x *Prices) price(b *ChosenPlan, bytes int64, worse float64) (us float64, chunks plan.Chunks, err error) {
	if x.site.graph.Ranks == 1 {
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
	for _, c := range x.chunkings {
		if c.Max > 0 {
			c.Max = min(c.Max, x.site.slotBytes)
		}
		c.Min = min(c.Min, x.site.slotBytes)
		size := [2]int64{min(int64(c.Of(share, widest, widest, x.site.slotBytes)), max(share, 1))}
		size[1] = min(int64(c.Of(least, narrowest, widest, x.site.slotBytes)), size[0])
		if size == before {
			continue // the same chunks
		}
		before = size
		most := x.limits
		if x.site.hosts != nil && size[0] == size[1] && uneven {
			// The effect on the others when narrow lanes are done shows only in longer runs.
			steps, _ := sim.Weigh(b.Plan)
			most.Chunks = float64(8 * x.site.slots)
			most.Steps = min(most.Chunks*steps, longSteps)
		}
		switch most.Us = us; {
		case !math.IsInf(us, 1):
		case len(x.chunkings) == 1:
			most.Us = worse
		default:
			most.Us = 2 * worse // smaller chunks may yet be better
		}
		v, err := x.run(b, bytes, 1, c, most)
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

// run returns the time of inflight calls at once of a plan with the chunks c, in microseconds: +Inf where that is above
// a limit, where the plan has too many steps, and where it joins ranks that the graph does not.
func (x *Prices) run(b *ChosenPlan, bytes int64, inflight int, c plan.Chunks, most sim.Limits) (float64, error) {
	if x.isLong(b.Plan) {
		return math.Inf(1), nil
	}
	us, err := x.pricer().Us(b.Plan, bytes, inflight, c, most)
	switch {
	case errors.Is(err, sim.ErrStopped):
		return 0, err
	case err != nil && (pairwise(b.Plan.Kind) || b.Plan.Kind.Scans()) && x.site.disconnected != nil:
		return math.Inf(1), nil
	case err != nil:
		return 0, fmt.Errorf("price of plan %s: %w", b.Plan.Name, err)
	}
	return us, nil
}

// widestShare returns the share of a message that the widest lane of a plan carries, in bytes.
func widestShare(p *plan.Plan, bytes int64) int64 {
	_, widest := sim.Weigh(p)
	return int64(float64(bytes) * widest)
}

// isLong reports whether a plan has too many steps for a price.
func (x *Prices) isLong(p *plan.Plan) bool {
	steps, _ := sim.Weigh(p)
	return steps > x.maxSteps
}

// nearly is the relative difference within which prices are equal: between hosts they rest on rougher measurements,
// and those of devices on round figures.
func (x *Prices) nearly() float64 {
	switch {
	case x.site.machine.Device:
		return 0.01
	case x.site.hosts != nil:
		return 0.02
	}
	return 0.001
}
