package comm

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
)

// Choose returns the plan that a call takes, and its digest.
func (c *Comm) Choose(kind plan.Kind, root, bytes int) (*planner.Choice, string, error) {
	choice, err := c.Plans.Planner.Choose(kind, root, int64(bytes))
	if err != nil {
		return nil, "", err
	}
	pr, _, err := c.Plans.Program(kind, max(root, 0), bytes)
	if err != nil { // not that of the program itself, which calls run
		return choice, choice.Chosen.Plan.Digest(), err
	}
	return choice, pr.Plan().Digest(), nil
}

// UnusedPlan names a plan of WithPlan that no call has run yet; "" is none.
func (c *Comm) UnusedPlan() string {
	g := c.Setup.Config.Planning.Given
	if g == nil || g.Ran || c.Devices.Session != nil && c.Devices.Session.Given.Ran {
		return ""
	}
	p := g.Plan
	text := fmt.Sprintf("the given plan, of %v", p.Kind)
	if p.Kind.HasRoot() {
		text += fmt.Sprintf(" with root %d", p.Root)
	}
	return text + ", has served no call"
}
