package collective

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/machines"
)

// The settings that say how to plan: those of treerun's flags, or of the variables
// TREERUN_GRAPH, TREERUN_ALGORITHM and TREERUN_PLAN where another launcher starts the
// ranks. Options of New come before them.
const (
	settingGraph     = "graph"     // the text of a graph file, the path of one, or the name of a machine
	settingAlgorithm = "algorithm" // as planner.ParseOptions reads it
	settingPlan      = "plan"      // the text of a plan file, or the path of one
)

// usePlanning takes over what the job's settings say of planning, and proves a given plan.
// An error is an ErrArgument.
func (c *config) usePlanning(w World) error {
	for _, one := range []struct {
		setting string
		given   bool
		use     func(text string) error
	}{
		{settingGraph, c.graph != nil, c.useGraph},
		{settingAlgorithm, c.planned, c.useAlgorithm},
		{settingPlan, c.given != nil || c.file != nil, c.usePlan},
	} {
		text := w.Setting(one.setting)
		if text == "" || one.given {
			continue
		}
		if err := one.use(text); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrArgument, one.setting, err)
		}
	}
	if err := c.planning.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	if c.given == nil && c.file == nil {
		return nil
	}
	if c.given == nil || c.file == nil {
		return fmt.Errorf("%w: WithPlan has a file without a plan, or a plan without its file", ErrArgument)
	}
	if c.given.Size != w.Size() {
		return fmt.Errorf("%w: the plan is for %d ranks, the communicator has %d", ErrArgument, c.given.Size, w.Size())
	}
	given, err := planner.NewGiven(c.file, c.given)
	if err != nil {
		return fmt.Errorf("%w: the plan: %w", ErrArgument, err)
	}
	c.planning.Given = given
	return nil
}

// useGraph takes over a graph, which is that of the ranks' devices, too.
func (c *config) useGraph(text string) (err error) {
	defer func() {
		if c.deviceGraph == nil {
			c.deviceGraph = c.graph
		}
	}()
	if g, known := machines.Get(text); known {
		c.graph = g
		return nil
	}
	data, name, err := safefile.TextOrFile(text, topo.MaxGraphBytes)
	if err != nil {
		return err
	}
	if c.graph, err = topo.ParseGraph(data); err != nil {
		return fmt.Errorf("%s%w", name, err)
	}
	return nil
}

func (c *config) useAlgorithm(text string) error {
	o, err := planner.ParseOptions(text)
	o.Stable = o.Stable || c.planning.Stable
	c.planning = o
	return err
}

func (c *config) usePlan(text string) error {
	data, name, err := safefile.TextOrFile(text, plan.MaxPlanBytes)
	if err != nil {
		return err
	}
	if c.file, c.given, err = plan.ParseFile(data); err != nil {
		return fmt.Errorf("%s%w", name, err)
	}
	return nil
}
