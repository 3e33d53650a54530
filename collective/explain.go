package collective

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/pack"
)

// explain says, for people, which plan runs from which size on, what each is
// priced at, and how far the best rate is from what the links allow.
func (p *planner) explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "treerun: %d ranks, links of %d slots of %d bytes\n", p.size, p.slots, p.slotBytes)
	if p.size == 1 {
		return b.String()
	}
	fmt.Fprintf(&b, "AllReduce below %d bytes: %s; from there: %s\n", p.largeFrom, p.small.Name, p.large.Name)
	fmt.Fprintf(&b, "Broadcast, Reduce: the tree of the root, such as\n%s", p.trees[p.smallRoot])
	for _, bytes := range []int64{8, 4 << 10, 256 << 10, 16 << 20} {
		chosen := p.small
		if bytes >= int64(p.largeFrom) {
			chosen = p.large
		}
		fmt.Fprintf(&b, "AllReduce of %d bytes: %s\n", bytes, p.predicted(chosen, bytes))
	}
	b.WriteString(p.certificate())
	return b.String()
}

// predicted names a plan with its price for a size.
func (p *planner) predicted(m *plan.Plan, bytes int64) string {
	us, err := p.price(m, bytes)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, predicted %.2f us, %.2f GB/s", m.Name, us, float64(bytes)/us/1e3)
}

// certificate compares the rate of the plan for large messages, as far as the
// links go, with the most that any plan could reach on them.
func (p *planner) certificate() string {
	bound, err := pack.TreeBound(p.graph)
	if err != nil {
		return fmt.Sprintf("no bound: %v\n", err)
	}
	rate := float64(len(p.trees)) / p.graph.Busiest(p.trees)
	return fmt.Sprintf("Links allow %.2f GB/s, these trees %.2f GB/s (%.0f %% of the bound): %s\n",
		bound.Rate, rate, 100*rate/bound.Rate, bound)
}
