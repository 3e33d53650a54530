package setup

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/topo"
)

// The settings of planning: those of treerun's flags, or of the variables TREERUN_GRAPH, TREERUN_ALGORITHM and
// TREERUN_PLAN where another launcher starts the ranks. Options of New come before them.
const (
	settingGraph     = "graph"     // the text of a graph file, the path of one, or the name of a machine
	settingAlgorithm = "algorithm" // as planner.ParseOptions reads it
	settingPlan      = "plan"      // the text of a plan file, or the path of one
)

// usePlanning takes over the job's settings of planning, and proves a given plan. An error is an ErrArgument.
func (c *Config) usePlanning(w World) error {
	for _, one := range []struct {
		setting string
		given   bool
		use     func(text string) error
	}{
		{settingGraph, c.Graph != nil, func(text string) error { return c.useGraph(w, text) }},
		{settingAlgorithm, c.Planned, c.useAlgorithm},
		{settingPlan, c.Given != nil || c.File != nil, c.usePlan},
	} {
		text := w.Setting(one.setting)
		if text == "" || one.given || one.setting == settingPlan && laterEpoch(w) { // a plan is for the first ranks
			continue
		}
		if err := one.use(text); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrArgument, one.setting, err)
		}
	}
	if err := c.Planning.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	if c.Given == nil && c.File == nil {
		return nil
	}
	if c.Given == nil || c.File == nil {
		return fmt.Errorf("%w: WithPlan has a file without a plan, or a plan without its file", ErrArgument)
	}
	if c.Given.Size != w.Size() {
		return fmt.Errorf("%w: the plan is for %d ranks, the communicator has %d", ErrArgument, c.Given.Size, w.Size())
	}
	given, err := planner.NewGiven(c.File, c.Given)
	if err != nil {
		return fmt.Errorf("%w: the plan: %w", ErrArgument, err)
	}
	c.Planning.Given = given
	return nil
}

// useGraph takes over a graph of the ranks that the job began with, which is that of the ranks' devices, too.
func (c *Config) useGraph(w World, text string) (err error) {
	defer func() {
		if c.Graph != nil && laterEpoch(w) {
			c.Graph = amongOrigins(c.Graph, originsOf(w))
		}
		if c.DeviceGraph == nil {
			c.DeviceGraph = c.Graph
		}
	}()
	if g, known := topo.Machine(text); known {
		c.Graph = g
		return nil
	}
	data, name, err := safefile.TextOrFile(text, topo.MaxGraphBytes)
	if err != nil {
		return err
	}
	if c.Graph, err = topo.ParseGraph(data); err != nil {
		return fmt.Errorf("%s%w", name, err)
	}
	return nil
}

func (c *Config) useAlgorithm(text string) error {
	o, err := planner.ParseOptions(text)
	o.Stable = o.Stable || c.Planning.Stable
	c.Planning = o
	return err
}

func (c *Config) usePlan(text string) error {
	data, name, err := safefile.TextOrFile(text, plan.MaxPlanBytes)
	if err != nil {
		return err
	}
	if c.File, c.Given, err = plan.ParseFile(data); err != nil {
		return fmt.Errorf("%s%w", name, err)
	}
	return nil
}
