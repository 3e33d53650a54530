package collective

import (
	"log/slog"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
)

// Option changes how New makes a communicator. All ranks must give the same
// options; New compares them.
type Option = setup.Option

// WithGraph makes plans for g instead of measuring the links. g must have as
// many ranks as the World.
func WithGraph(g *topo.Graph) Option { return func(c *setup.Config) { c.Graph = g } }

// WithDeviceGraph makes the plans of device calls for g, which has the ranks'
// devices in place of the ranks, instead of what is known of the devices.
func WithDeviceGraph(g *topo.Graph) Option { return func(c *setup.Config) { c.DeviceGraph = g } }

// WithSlots sets the number of slots of each link (a power of two, at least 2)
// and their size in bytes (a multiple of 64). The default follows from the
// number of ranks: about 4 MiB of links per rank.
func WithSlots(slots, bytes int) Option {
	return func(c *setup.Config) { c.Slots, c.SlotBytes = slots, bytes }
}

// WithName gives the communicator a name, for reports and errors. The default is
// "world" for the first one of a World, then "world#2", and so on; parts that
// Split makes of it are "world/split#1", "world/split#2".
func WithName(name string) Option { return func(c *setup.Config) { c.Name = name } }

// WithLogger sets where the communicator, and those that Split makes of it, report what is not an error of a call: long
// waits as warnings, and with treerun -v the plans. The default is standard error, and for waits rank.WithLogger, else
// treerun, which makes one line of those of all ranks. What is refused at a port between hosts goes to slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *setup.Config) { c.Logger = l } }

// WithStallReport changes how often a line on standard error, or of WithLogger, says for whom this
// rank waits while a call does not get on, every ten seconds by default; 0 turns
// it off. New is reported as well.
func WithStallReport(d time.Duration) Option { return func(c *setup.Config) { c.Stall = d } }

// WithStallTimeout makes a call, or New, fail on all ranks with ErrStalled when a
// rank has waited in it for d without any progress. The RankError names the rank
// that all others wait for. The default is treerun's --stall-timeout, else none:
// a rank may be in a debugger, or have much to compute before it calls.
func WithStallTimeout(d time.Duration) Option { return func(c *setup.Config) { c.StallTimeout = d } }

// WithTopoCache keeps measured graphs in dir instead of the user's cache
// directory; "" measures anew and keeps nothing.
func WithTopoCache(dir string) Option {
	return func(c *setup.Config) { c.Cache = &probe.Cache{Dir: dir} }
}

// Planning is options of algorithms, for WithAlgorithm.
type Planning = planner.Options

// WithAlgorithm runs the collectives that an algorithm offers by it, with its options:
// "ring", "packing", "hierarchical:multi/double-binary". Other collectives are planned as
// usual. planner.Algorithms has the names, and the algorithm may be empty to give options
// alone. It replaces treerun's --algorithm.
func WithAlgorithm(name string, options ...Planning) Option {
	return func(c *setup.Config) {
		o := Planning{}
		for _, more := range options {
			o = more
		}
		o.Algorithm, o.Given, o.Stable = name, c.Planning.Given, c.Planning.Stable || o.Stable
		c.Planning, c.Planned = o, true
	}
}

// WithPlan runs the calls of one collective, and of one root where it has one, by a plan
// that was read from a file (plan.ParseFile). New proves it. Other calls are planned as
// usual. It replaces treerun's --plan.
func WithPlan(f *plan.File, p *plan.Plan) Option {
	return func(c *setup.Config) { c.File, c.Given = f, p }
}

// WithStableOrder adds every element in one fixed order: the ranks of a host in order,
// and then the hosts in order. So a sum has the same bits whatever the size of its
// message, its place in it, or the way that messages are fused or cut. It takes algorithms
// that can, and up to some tenths more time where there are many ranks on a host. Where
// ranks of a host have no link to each other values pass through others: by prediction an
// AllReduce takes 1.5 times as long on a DGX-1V, and 2 to 4 times on a node of MI250s.
func WithStableOrder() Option {
	return func(c *setup.Config) { c.Planning.Stable = true }
}
