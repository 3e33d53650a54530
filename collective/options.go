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

// Option changes the settings that New makes a communicator with. All ranks must pass the same options; New compares
// them.
type Option = setup.Option

// WithGraph sets the graph that plans are made for; the links are then not measured. g must have as many ranks as the
// World.
func WithGraph(g *topo.Graph) Option { return func(c *setup.Config) { c.Graph = g } }

// WithDeviceGraph sets the graph that plans of device calls are made for, in place of the one that the first device
// call makes. The ranks of g stand for the ranks' devices.
func WithDeviceGraph(g *topo.Graph) Option { return func(c *setup.Config) { c.DeviceGraph = g } }

// WithSlots sets the number of slots of each link (a power of two, at least 2)
// and their size in bytes (a multiple of 64). The default follows from the
// number of ranks: about 4 MiB of links per rank.
func WithSlots(slots, bytes int) Option {
	return func(c *setup.Config) { c.Slots, c.SlotBytes = slots, bytes }
}

// WithName gives the communicator a name, for reports and errors. The default is "world" for the first communicator of
// a World, then "world#2", and so on; the communicators that Split makes of it are "world/split#1", "world/split#2".
func WithName(name string) Option { return func(c *setup.Config) { c.Name = name } }

// WithLogger sets the logger for reports that are not errors of a call, of this communicator and those that Split makes
// of it: warnings about long waits, and the plans with treerun -v. The default is standard error; for waits it is
// rank.WithLogger, or else treerun, which combines the waits of all ranks in one line. Connections refused at a port
// between hosts are logged to slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *setup.Config) { c.Logger = l } }

// Event describes a call that has ended, for WithObserver.
type Event = setup.Event

// WithObserver sets a function that is called after each call of this rank on the communicator, and on those that Split
// makes of it: for traces and metrics of the program. It runs in the goroutine of the call, before the call returns. It
// must be quick, must not wait, and must not use the communicator. If it panics, the communicator ends with an
// ErrAborted on all ranks.
//
// With an observer the clock is read twice for every call, which takes about 0.1 us, and the function is called.
// Without one there is no cost. Device calls are not reported: they end in their streams.
func WithObserver(observe func(Event)) Option { return func(c *setup.Config) { c.Observe = observe } }

// WithStallReport sets the interval of the stall reports, ten seconds by default; 0 turns them off. While a call makes
// no progress, each report is a line, on standard error or in the log of WithLogger, that names the rank that this rank
// waits for. New is reported as well. Under treerun there are no such lines unless a logger is set: the launcher
// watches all ranks, and prints one line for them.
func WithStallReport(d time.Duration) Option { return func(c *setup.Config) { c.Stall = d } }

// WithStallTimeout makes a call, or New, fail on all ranks with ErrStalled when a rank has waited in it for d without
// any progress. The RankError names the rank that all others wait for. The default is treerun's --stall-timeout, or
// else no limit: a rank may be in a debugger, or compute for a long time before its call.
func WithStallTimeout(d time.Duration) Option { return func(c *setup.Config) { c.StallTimeout = d } }

// WithTopoCache keeps measured graphs in dir instead of the user's cache directory. With "" the links are measured
// again and nothing is kept.
func WithTopoCache(dir string) Option {
	return func(c *setup.Config) { c.Cache = &probe.Cache{Dir: dir} }
}

// Planning is an option of a planning algorithm, for WithAlgorithm.
type Planning = planner.Options

// WithAlgorithm selects an algorithm, with its options, for the collectives that it supports: "ring", "packing",
// "hierarchical:multi/double-binary". Other collectives are planned as usual. `treerun plan --help` lists the
// names; an empty name sets the options alone. WithAlgorithm replaces treerun's --algorithm.
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

// WithPlan runs the calls of one collective, and of one root where it has one, by a plan that was read from a file
// (plan.ParseFile). New verifies the plan. Other calls are planned as usual. WithPlan replaces treerun's --plan.
func WithPlan(f *plan.File, p *plan.Plan) Option {
	return func(c *setup.Config) { c.File, c.Given = f, p }
}

// WithoutReplan keeps the plans that New makes. Without it, a communicator of several hosts measures the network
// between them again when large calls take much longer, or less, than predicted for some seconds, and makes plans for
// the findings; see "When a link becomes slow" in docs/guide.md.
func WithoutReplan() Option { return func(c *setup.Config) { c.Replan = false } }

// WithStableOrder adds every element in one fixed order: first the ranks of each host in order, and then the hosts in
// order. A sum then has the same bits for every size of its message, for every position in it, and for every way to
// fuse or cut messages. Only algorithms that support this order are used, and calls take up to some tenths more time
// where a host has many ranks. If ranks of a host have no link to each other, values pass through other ranks: the
// predicted time of an AllReduce is 1.5 times as long on a DGX-1V, and 2 to 4 times on a node of MI250s.
func WithStableOrder() Option {
	return func(c *setup.Config) { c.Planning.Stable = true }
}
