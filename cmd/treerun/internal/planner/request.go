package planner

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
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
	penalty    float64
	arrayBound size // 0: derived
	seed       uint64
	pack       pack.Options
	given      []option // that are on the command line

	kind plan.Kind
	g    *topo.Graph

	meter   *meter      // of g
	pricer  *sim.Pricer // of g; nil until something is priced
	untried []string    // algorithms that auto did without
	proved  *pack.Bound // what an algorithm has proved of the request on its way; nil: nothing
}

var kinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.AllGather, plan.ReduceScatter}

// newFlags returns the flags that topo, plan and sim have in common with a
// place for help.
func newFlags(name string, graph *string, help *bool) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.StringVarP(graph, "graph", "g", "", "graph `FILE` (- is the standard input), or the name of a machine")
	f.BoolVarP(help, "help", "h", false, "print this text")
	return f
}

// register adds the flags that say which plan is wanted.
func (r *request) register(f *pflag.FlagSet) {
	r.collective, r.algorithm, r.root, r.penalty = "allreduce", "auto", -1, tree.LinkUsagePenalty
	f.Var(&choice{&r.collective, kindNames()}, "collective", "`KIND`: "+or(kindNames()))
	f.Var(&choice{&r.algorithm, algorithmNames()}, "algorithm", "`NAME`: "+strings.Join(algorithmNames(), ", ")+";\nauto takes the one with the lowest predicted time, of those that have all\noptions given")
	f.Var(whole(&r.root, 0, topo.MaxRanks-1), "root", "`RANK` that has the result or gives the data (default 0 for reduce and\nbroadcast); for the other collectives: one tree, with this root, of kl,\nexact, chain or star")
	f.Lookup("root").DefValue = "0" // shows no default
	f.Var(real(&r.penalty, 0, 1), "link-usage-penalty", "kl: `FACTOR` on a link's rate each time a tree uses it, 0 to 1")
	f.Var(&r.arrayBound, "array-bound", "smaller messages go over one tree, or one ring one way round, alone\n(default: derived from the rates and latencies of the trees or rings)")
	f.Lookup("array-bound").DefValue = "0"
	f.Var(whole(&r.pack.MaxTrees, 0, math.MaxInt), "max-trees", "packing: at most `K` trees; 0: any number")
	f.Var(real(&r.pack.MaxHeight, 0, topo.MaxRanks), "max-height", "packing: no rank farther than `H` links from its root; 0: any height")
	f.Var(real(&r.pack.MinRate, 0, topo.MaxRate), "min-rate", "packing: no tree below `R` GB/s; 0: any rate")
	f.Var(below(&r.pack.HeightTolerance), "height-tolerance", "packing: lower the height as long as the rate stays within this `SHARE`\nof the best; 0: do not search")
	f.BoolVar(&r.pack.Greedy, "greedy", false, "packing: grow trees greedily, as the patent does, in place of the\nlinear program")
	f.Var(seed(&r.seed), "seed", "of random choices of kl and packing; the same `SEED` gives the same plan")
}

func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.String())
	}
	return names
}

// resolve checks the request, which f has been read into, and loads the graph.
func (r *request) resolve(f *pflag.FlagSet) (err error) {
	for _, k := range kinds {
		if k.String() == r.collective {
			r.kind = k
		}
	}
	if r.kind.HasRoot() {
		r.root = max(r.root, 0)
	}
	if err := r.belong(f); err != nil {
		return err
	}
	r.pack.Seed = r.seed
	if r.g, err = loadGraph(r.graphName); err != nil {
		return err
	}
	if r.root >= r.g.Ranks {
		return usage("--root %d: the graph has the ranks 0 to %d", r.root, r.g.Ranks-1)
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
