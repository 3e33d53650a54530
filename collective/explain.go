package collective

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/pack"
)

// explain says, for people, which plan runs from which size on, what each is
// priced at, and how far the best rate is from what the links allow.
func (p *planner) explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "treerun: %d ranks, %d links of %d slots of %d bytes: %.1f MiB per rank\n",
		p.size, len(p.lanes.links), p.slots, p.slotBytes, float64(len(p.lanes.links)*p.slots*p.slotBytes)/float64(p.size)/(1<<20))
	if p.size == 1 {
		return b.String()
	}
	fmt.Fprintf(&b, "AllReduce: %s\n", choicesText(p.choices[plan.AllReduce]))
	for _, bytes := range []int64{8, 4 << 10, 256 << 10, 16 << 20} {
		name, us := p.choice(plan.AllReduce, bytes)
		fmt.Fprintf(&b, "AllReduce of %s: %s, predicted %.2f us, %.2f GB/s\n", bytesText(int(bytes)), name, us, float64(bytes)/us/1e3)
	}
	b.WriteString(p.certificate())
	return b.String()
}

// Choice names the plan that a call of this kind takes for a message of so many
// bytes, and predicts its time in microseconds, NaN where it cannot be. Where
// every rank has a part the message is that of all parts; where there is a root
// it is rank 0. Every rank gets the same answer by itself. Choice must not run
// beside a call of the communicator.
func (c *Comm) Choice(kind plan.Kind, bytes int) (name string, us float64) {
	return c.plans.choice(kind, int64(bytes))
}

// ChosenBy says, for people, what the choice of plan for kind rests on: the price, or a
// rule where only one is offered: as no trees are where all links are alike. It
// must not run beside a call of the communicator.
func (c *Comm) ChosenBy(kind plan.Kind) string {
	p := c.plans
	if err := p.choosing(kind); err != nil {
		return err.Error()
	}
	switch fitting := p.fitting(kind); {
	case len(fitting) == 1:
		return "rule (only this one is offered here)"
	case kind == plan.Barrier && (p.hosts == nil && p.sharesCores() || p.sharesBox()) && slices.Contains(fitting, starShape):
		return "rule (ranks share cores, and rank 0 is to leave first)"
	}
	return "price"
}

// choice names the plan for a message of so many bytes and predicts its time,
// in microseconds, NaN where it cannot be predicted.
func (p *planner) choice(kind plan.Kind, bytes int64) (name string, us float64) {
	if err := p.choosing(kind); err != nil {
		return "", math.NaN()
	}
	s := p.choiceFor(kind, int(bytes)).shape
	us, _, err := p.priceShape(kind, 0, s, bytes, math.Inf(1))
	if err != nil {
		return s.String(), math.NaN()
	}
	return s.String(), us
}

// certificate compares the rate of the plan for large messages, as far as the
// links go, with the most that any plan could reach on them.
func (p *planner) certificate() string {
	if p.hosts != nil {
		return p.hosts.certificate()
	}
	bound, err := pack.TreeBound(p.graph)
	if err != nil {
		return fmt.Sprintf("no bound: %v\n", err)
	}
	rate := float64(len(p.trees)) / p.graph.Busiest(p.trees)
	return fmt.Sprintf("Links allow %.2f GB/s, these trees %.2f GB/s (%.0f %% of the bound): %s\n",
		bound.Rate, rate, 100*rate/bound.Rate, bound)
}

// PlanNames returns the names of the shapes of plan among which c chooses for a
// collective, at least one, for WithPlan. It must not run beside a call of the
// communicator.
func (c *Comm) PlanNames(kind plan.Kind) []string {
	if c.plans.hosts == nil {
		return PlanNames(kind, c.Size())
	}
	var names []string
	for _, s := range c.plans.fittingHosts(kind) {
		names = append(names, s.String())
	}
	return names
}

// PlanNames returns the names of the shapes of plan in which a collective can run
// on so many ranks of one host, at least one, for WithPlan. Where it is one
// only, every communicator takes it, whatever WithPlan says.
func PlanNames(kind plan.Kind, ranks int) []string {
	var names []string
	for s := range shapes {
		if s.fits(kind) && s.reaches(ranks) {
			names = append(names, s.String())
		}
	}
	if len(names) == 0 {
		names = append(names, directOne.String()) // has no other
	}
	return names
}
