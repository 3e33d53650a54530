// Package planner holds the subcommands topo, plan and sim of treerun, and the flags for the planning of a job: it
// reads a graph from a file or by the name of a machine, requests plans from package collective/planner, as a job does,
// and prints the results, with the proof of their quality.
//
// It starts no process; it reads the files of its arguments, or has its caller measure the host, and writes to its
// Writer. The same arguments and the same graph give the same output on hosts with the same number of cores. Only
// packages below cmd/treerun import it.
package planner

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// request is the command line of a plan.
type request struct {
	graph      graphFlags
	collective string
	device     string
	cores      int // 0: one per rank
	root       int
	options    planner.Options

	kind plan.Kind
	g    *topo.Graph
	p    *planner.Planner
}

const maxCores = 1 << 20

// newFlags returns the common flags of topo, plan and sim, and a flag for help.
func newFlags(name string, graph *graphFlags, help *bool) *pflag.FlagSet {
	f := cmdline.NewFlags(name, help)
	graph.define(f, "g", "graph `FILE` (- is the standard input), or the name of a machine")
	return f
}

// read parses the arguments of a subcommand, whose flags are those of more and those of the request. done is true where
// it has printed the help.
func (r *request) read(w io.Writer, name, help string, args []string, more func(*pflag.FlagSet)) (done bool,
	err error) {
	showHelp := false
	f := newFlags(name, &r.graph, &showHelp)
	more(f)
	r.register(f)
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-np") }) {
		return false, usage("%s takes no -np: its ranks are those of --graph", name)
	}
	if err := parse(f, args); err != nil {
		return false, err
	}
	if showHelp {
		machines := numbers.Wrapped(strings.Join(topo.Machines(), ", "), 60)
		_, err := fmt.Fprintf(w, help, cmdline.Usages(f), strings.Join(machines, "\n"))
		return true, err
	}
	return false, r.resolve(f)
}

// register adds the flags for the plan, and for the machine.
func (r *request) register(f *pflag.FlagSet) {
	r.collective, r.device, r.cores = "allreduce", "cpu", job.UsableCores()
	f.Var(cmdline.LowerWord(&r.collective, kindNames()...), "collective", "`KIND`: "+strings.Join(kindNames(), ", "))
	f.IntVar(&r.root, "root", 0,
		"`RANK` that has the result or the data, of reduce, broadcast, gather and scatter")
	f.Var(cmdline.IntRange(&r.cores, 0, maxCores), "cores",
		"`N` cores that the ranks of a host share; 0: one for each rank (default: those of this host)")
	f.Lookup("cores").DefValue = "0" // shows no default
	f.Var(cmdline.LowerWord(&r.device, "cpu", "cuda"), "device",
		"`WHERE` the data are: cpu, or cuda for the memory of GPUs")
	defineOptions(f, &r.options, "")
}

func kindNames() []string {
	var names []string
	for k := range plan.Kinds {
		names = append(names, k.String())
	}
	return names
}

// resolve checks the request, whose flags are f, and loads the graph.
func (r *request) resolve(f *pflag.FlagSet) (err error) {
	if err := r.kind.UnmarshalText([]byte(r.collective)); err != nil {
		return err
	}
	if f.Changed("root") && !r.kind.HasRoot() {
		return usage("--root %d: %s has no root", r.root, r.kind)
	}
	if err := r.options.Validate(); err != nil {
		return usage("%w", err)
	}
	if r.g, err = r.graph.load(); err != nil {
		return err
	}
	if r.root < 0 || r.root >= r.g.Ranks {
		return usage("--root %d: the graph has the ranks 0 to %d", r.root, r.g.Ranks-1)
	}
	machine := planner.Machine{Cores: r.cores, Device: r.device == "cuda"}
	if r.p, err = planner.New(r.g, machine, r.options); err != nil {
		return fmt.Errorf("graph %s: %w", graphTitle(r.g), err)
	}
	if err := r.p.Supports(r.kind, r.root); err != nil {
		return usage("%s on %s: %w", r.kind, graphTitle(r.g), err)
	}
	return nil
}

// assumed describes the machine that the price is for.
func (r *request) assumed() string {
	where := "one core for each rank"
	switch {
	case r.device == "cuda":
		where = "devices"
	case r.cores > 0:
		where = numbers.Count(r.cores, "core") + " a host"
	}
	slots, bytes := r.p.Site.Slots()
	return fmt.Sprintf("assumed: %s, %d slots of %s on every link", where, slots, numbers.Bytes(int64(bytes)))
}

var usage = cmdline.Usagef

// size is a number of bytes on the command line.
type size = cmdline.Size

// option is a flag that sets a field of options.
func option(o *planner.Options, name, kind string) pflag.Value {
	return cmdline.Setter(kind, func(text string) error { return o.Set(name, text) })
}

// defineOptions adds --algorithm and the options of algorithms, seed with a prefix.
func defineOptions(f *pflag.FlagSet, o *planner.Options, prefix string) {
	f.Var(option(o, "algorithm", "VALUE"), "algorithm",
		"`NAME`: "+strings.Join(planner.Algorithms(), ", ")+" (default: by predicted time); options may follow, as in "+
			"packing,max-trees=4")
	cmdline.SetWords(f, "algorithm", planner.Algorithms()...)
	for _, x := range planner.Flags() {
		name, help, kind := x.Name, x.Help, "VALUE"
		if x.Bool {
			kind = "bool"
		}
		if name == "seed" {
			name = prefix + name
		}
		if len(x.Takers) > 0 && len(x.Takers) < 3 {
			help = strings.Join(x.Takers, ", ") + ": " + help
		}
		flag := f.VarPF(option(o, x.Name, kind), name, "", help)
		if x.Bool {
			flag.NoOptDefVal = "true"
		}
	}
}
