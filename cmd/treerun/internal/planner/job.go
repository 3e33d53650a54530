package planner

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/topo"
)

// JobFlags holds the flags for the planning of a job.
type JobFlags struct {
	graph   graphFlags
	plan    string
	options planner.Options

	given *planner.ChosenPlan // of --plan, once Settings has read it
}

// Define adds the flags. The option seed is --plan-seed: a job's own seed is another.
func (j *JobFlags) Define(f *pflag.FlagSet) {
	j.graph.define(f, "", "plan for the links of this graph `FILE` or machine, in place of measured ones")
	f.StringVar(&j.plan, "plan", "",
		"run the calls of its collective and root by the plan in `FILE`, as treerun plan --format json prints it; "+
			"others are planned as usual")
	defineOptions(f, &j.options, "plan-")
}

// maxSettings is the limit, in bytes, of the flags' share of the settings of a job, which are part of the job file of
// every rank.
const maxSettings = 72 << 20

// Settings checks the flags for a job of the given number of ranks, and adds them to the settings, by the names that
// package collective reads. The files are read here: ranks on other hosts do not need them. Errors are those of usage.
func (j *JobFlags) Settings(s map[string]string, ranks int) error {
	if err := j.environment(os.Getenv); err != nil {
		return err
	}
	if err := j.options.Validate(); err != nil {
		return usage("%w", err)
	}
	if text := j.options.String(); text != "" {
		s["algorithm"] = text
	}
	if err := j.readGraph(s, ranks); err != nil {
		return err
	}
	if err := j.readPlan(s, ranks); err != nil {
		return err
	}
	if n := len(s["graph"]) + len(s["plan"]); n > maxSettings {
		return usage("--graph and --plan have %d bytes together, at most %d are possible", n, maxSettings)
	}
	return nil
}

// environment takes the values of flags that were not given from the variables that programs without treerun's launcher
// read. Flags of options are added to those of the variable; --algorithm replaces an algorithm there and its options.
func (j *JobFlags) environment(get func(name string) string) error {
	if j.graph.name == "" {
		j.graph.name = get(job.Variable("graph"))
	}
	if j.plan == "" {
		j.plan = get(job.Variable("plan"))
	}
	algorithm := job.Variable("algorithm")
	o, err := planner.ParseOptions(get(algorithm))
	if err != nil {
		return usage("%s: %w", algorithm, err)
	}
	if o.Algorithm != "" && j.options.Algorithm != "" {
		return nil
	}
	o.Algorithm += j.options.Algorithm // one of them is empty
	for name, value := range j.options.Map() {
		if err := o.Set(name, value); err != nil {
			return usage("--%s: %w", name, err)
		}
	}
	j.options = o
	return nil
}

func (j *JobFlags) readGraph(s map[string]string, ranks int) error {
	switch {
	case j.graph.name == "" && j.graph.model != "":
		return usage("--gpu-model %s is for --graph", j.graph.model)
	case j.graph.name == "":
		return nil
	case j.graph.name == "-":
		return usage("--graph -: the standard input of a job goes to rank 0")
	}
	g, err := j.graph.load()
	if err != nil {
		return usage("%w", err)
	}
	if g.Ranks != ranks {
		return usage("--graph %.60s: the graph has %s, the job has %d", j.graph.name, numbers.Count(g.Ranks, "rank"), ranks)
	}
	if _, known := topo.Machine(j.graph.name); known {
		s["graph"] = j.graph.name
		return nil
	}
	data, err := g.AppendJSON(nil)
	s["graph"] = string(data)
	return err
}

func (j *JobFlags) readPlan(s map[string]string, ranks int) error {
	if j.plan == "" {
		return nil
	}
	data, at, err := safefile.TextOrFile(j.plan, plan.MaxPlanBytes)
	if err != nil {
		return usage("--plan: %w", err)
	}
	f, p, err := plan.ParseFile(data)
	if err == nil && p.Size != ranks {
		err = fmt.Errorf("the plan is for %s, the job has %d", numbers.Count(p.Size, "rank"), ranks)
	}
	if err == nil {
		j.given, err = planner.NewGiven(f, p)
	}
	if err != nil {
		return usage("--plan %s%w", at, err)
	}
	s["plan"] = strings.TrimSpace(string(data))
	return nil
}

// Unserved returns an error of usage that names the plan of --plan or the algorithm of --algorithm, where other plans
// have run, according to their digests and algorithms.
func (j *JobFlags) Unserved(digests, algorithms []string) error {
	suits := j.options.Suits()
	ran := func(name string) bool {
		return slices.ContainsFunc(algorithms, func(a string) bool {
			return a == name || strings.HasPrefix(a, name+":") || strings.HasPrefix(name, a+":")
		})
	}
	switch {
	case len(suits) > 0 && !slices.ContainsFunc(suits, ran):
		return usage("--algorithm %s served no call: it offers none of these collectives here", strings.Join(suits, ", "))
	case j.given == nil || slices.Contains(digests, j.given.Plan.Digest()):
		return nil
	}
	root := ""
	given := j.given.Plan
	if given.Root >= 0 {
		root = fmt.Sprintf(" with root %d", given.Root)
	}
	return usage("--plan %.60s served no call: it is for %s%s", j.plan, given.Kind, root)
}

// Given returns the flags that were given, as arguments.
func (j *JobFlags) Given() []string {
	var list []string
	for _, f := range [...]struct{ name, value string }{
		{"--graph", j.graph.name}, {"--gpu-model", j.graph.model}, {"--plan", j.plan}, {"--algorithm", j.options.String()},
	} {
		if f.value != "" {
			list = append(list, f.name, f.value)
		}
	}
	return list
}
