package planner

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// request is what the command line asks of a plan.
type request struct {
	graphName  string
	collective string
	algorithm  string
	root       int // -1: not given
	objective  string
	variant    string
	penalty    float64
	arrayBound size // 0: derived
	seed       uint64
	pack       pack.Options

	kind plan.Kind
	g    *topo.Graph
}

var kinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.AllGather, plan.ReduceScatter}

// newFlags returns the flags that topo, plan and sim have in common with a
// place for help.
func newFlags(name string, graph *string, help *bool) *pflag.FlagSet {
	f := pflag.NewFlagSet("treerun "+name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.StringVarP(graph, "graph", "g", "", "graph `FILE`, or the name of a machine")
	f.BoolVarP(help, "help", "h", false, "print this text")
	return f
}

// register adds the flags that say which plan is wanted.
func (r *request) register(f *pflag.FlagSet) {
	f.StringVar(&r.collective, "collective", "allreduce", "`KIND`: allreduce, reduce, broadcast, allgather or reducescatter")
	f.StringVar(&r.algorithm, "algorithm", "auto", "`NAME`: "+strings.Join(algorithmNames(), ", ")+";\nauto takes the one with the lowest predicted time")
	f.IntVar(&r.root, "root", -1, "`RANK` that has the result or gives the data (default 0 for reduce and\nbroadcast); for the other collectives: one tree, with this root")
	f.Lookup("root").DefValue = "0" // shows no default
	f.Float64Var(&r.penalty, "link-usage-penalty", tree.LinkUsagePenalty, "kl: `FACTOR` on a link's rate each time a tree uses it, 0 to 1")
	f.Var(&r.arrayBound, "array-bound", "smaller messages go over one tree alone (default: derived from the\nrates and latencies of the trees)")
	f.StringVar(&r.objective, "objective", "weight", "exact: `WHAT` is largest, weight (sum of the rates) or bottleneck\n(the slowest link)")
	f.StringVar(&r.variant, "variant", "current", "double-binary: `HOW` tree 1 comes from tree 0: current, shift or mirror")
	f.IntVar(&r.pack.MaxTrees, "max-trees", 0, "packing: at most `K` trees; 0: any number")
	f.Float64Var(&r.pack.MaxHeight, "max-height", 0, "packing: no rank farther than `H` links from its root; 0: any height")
	f.Float64Var(&r.pack.MinRate, "min-rate", 0, "packing: no tree below `R` GB/s; 0: any rate")
	f.Float64Var(&r.pack.HeightTolerance, "height-tolerance", 0, "packing: lower the height as long as the rate stays within this `SHARE`\nof the best; 0: do not search")
	f.BoolVar(&r.pack.Greedy, "greedy", false, "packing: grow trees greedily, as the patent does, in place of the\nlinear program")
	f.Uint64Var(&r.seed, "seed", 0, "of random choices of kl and packing; the same `SEED` gives the same plan")
}

// resolve checks the request and loads the graph.
func (r *request) resolve() (err error) {
	for _, k := range kinds {
		if k.String() == r.collective {
			r.kind = k
		}
	}
	switch {
	case r.kind == 0:
		return usage("--collective %q: want allreduce, reduce, broadcast, allgather or reducescatter", r.collective)
	case !slices.Contains(algorithmNames(), r.algorithm):
		return usage("--algorithm %q: want one of %s", r.algorithm, strings.Join(algorithmNames(), ", "))
	case r.objective != "weight" && r.objective != "bottleneck":
		return usage("--objective %q: want weight or bottleneck", r.objective)
	case !(r.penalty >= 0 && r.penalty <= 1):
		return usage("--link-usage-penalty %v: want a number from 0 to 1", r.penalty)
	case r.pack.MaxTrees < 0:
		return usage("--max-trees %d: want 0 or more", r.pack.MaxTrees)
	case !(r.pack.MaxHeight >= 0) || math.IsInf(r.pack.MaxHeight, 0):
		return usage("--max-height %v: want 0 or more", r.pack.MaxHeight)
	case !(r.pack.MinRate >= 0) || math.IsInf(r.pack.MinRate, 0):
		return usage("--min-rate %v: want 0 or more", r.pack.MinRate)
	case !(r.pack.HeightTolerance >= 0 && r.pack.HeightTolerance < 1):
		return usage("--height-tolerance %v: want a share from 0 to below 1", r.pack.HeightTolerance)
	}
	if _, err := tree.ParseVariant(r.variant); err != nil {
		return usage("--variant: %w", err)
	}
	r.pack.Seed = r.seed
	if r.g, err = loadGraph(r.graphName); err != nil {
		return err
	}
	if r.root < -1 || r.root >= r.g.Ranks {
		return usage("--root %d: the graph has the ranks 0 to %d", r.root, r.g.Ranks-1)
	}
	if r.kind.HasRoot() {
		r.root = max(r.root, 0)
	}
	return nil
}

// planRoot is the root of the collective, -1 where it has none.
func (r *request) planRoot() int {
	if r.kind.HasRoot() {
		return r.root
	}
	return -1
}

func usage(format string, args ...any) error {
	return exitcode.Errorf(exitcode.Usage, "%w", fmt.Errorf(format, args...))
}
