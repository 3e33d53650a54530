//go:build linux

package bench

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// Options is the command line of treerun bench.
type Options struct {
	Ranks       int // 0: the default
	Collectives []string
	Types       []Type
	Ops         []string
	Root        int
	Passes      []bool // false: out of place, true: in place
	cmdline.Sweep
	Warmup     int
	Iterations int
	MaxSeconds float64 // of timed iterations per row; 0: no limit
	Check      bool
	Stream     bool   // back to back, without a barrier between iterations
	Alloc      bool   // buffers from collective.Alloc
	Device     string // the place of the data: CPU or CUDA

	// Of sparse collectives.
	Densities []float64 // parts of a rank's blocks that are not zero
	Overlaps  []string  // which blocks the ranks have in common
	BlockSize int       // elements
	Fill      float64   // part of the elements of a block that is not zero
	Form      string    // of the calls; "": by price

	// Aggregators is the number of ranks in addition to those of -np, which only aggregate.
	Aggregators int

	Wide       *bool        // the table has the columns of the plan; nil: if they fit
	JSON, Plot string       // files; "": none
	Explain    cmdline.Size // compare the shapes of plan for this size; 0: do not
	Verbose    bool         // the ranks log their choices on stderr
	Help       bool

	Flags *pflag.FlagSet
}

// Values of Device.
const (
	CPU  = "cpu"
	CUDA = "cuda"
)

// flagValues holds the values of flags from which Options are made.
type flagValues struct {
	collectives, types, ops []string
	inPlace                 string
	densities               []string
	check                   int
	wide                    bool
}

// passes maps the words of --in-place to passes.
var passes = map[string][]bool{"yes": {true}, "no": {false}, "both": {false, true}}

// othersFlags lists flags of nccl-tests, and of launchers, and their replacements here.
//
//go:embed others.txt
var othersFlags string

// newOptions returns the options with their defaults, and their flags.
func newOptions() (*Options, *flagValues) {
	o := &Options{Sweep: cmdline.Sweep{Begin: 8, End: 256 << 20}, Iterations: 20, Warmup: 5, BlockSize: 256, Device: CPU}
	r := &flagValues{inPlace: "both", check: 1}
	collectives, types := names(CPU)
	f := cmdline.NewFlags("treerun bench", &o.Help)
	f.VarP(cmdline.Ranks(&o.Ranks), "np", "n",
		"number of ranks (default: the number of GPUs, without GPUs of usable cores)")
	f.StringSliceVar(&r.collectives, "collective", []string{"allreduce"},
		"`NAME`,... or all: "+strings.Join(collectives, ", "))
	o.Sweep.Define(f)
	f.VarP(cmdline.IntRange(&o.Iterations, 1, maxRows), "iters", "i", "timed iterations: `N` per row")
	f.VarP(cmdline.IntRange(&o.Warmup, 0, maxRows), "warmup", "w", "`N` iterations before the timed ones")
	f.Float64Var(&o.MaxSeconds, "max-seconds", 2,
		"timed `SECONDS` per row: slow rows have fewer iterations, at least 3; 0 is no limit")
	f.VarP(cmdline.IntRange(&r.check, 0, 1), "check", "c", "`1`: compare every element of one more call; 0: do not")
	f.StringSliceVarP(&r.types, "datatype", "d", []string{"float32"},
		"`TYPE`,... or all: "+strings.Join(types, ", "))
	f.StringSliceVarP(&r.ops, "op", "o", []string{"sum"}, "`OP`,... or all: "+strings.Join(allOps, ", "))
	f.IntVarP(&o.Root, "root", "r", 0, "`RANK` that has the result or the data")
	f.Var(cmdline.LowerWord(&r.inPlace, "yes", "no", "both"), "in-place",
		"`WHICH` columns are measured: yes, no or both; alone it means yes")
	f.Lookup("in-place").NoOptDefVal = "yes"
	f.BoolVar(&o.Stream, "stream", false,
		"mean of iterations back to back, in place of the median of iterations that each follow a barrier")
	f.BoolVar(&o.Alloc, "alloc", false,
		"buffers in memory that all ranks can read (collective.Alloc), in place of ordinary slices")
	f.BoolVar(&r.wide, "wide", false,
		"add mean, plan, predicted time and share of the limit to the table, or with --wide=false leave them out (default: "+
			"if the terminal is wide enough)")
	f.StringSliceVar(&r.densities, "density", []string{"0.01"},
		"of sparse collectives: `PART`,... of a rank's blocks, 0 to 1, that are not zero")
	f.StringSliceVar(&o.Overlaps, "overlap", []string{"random"},
		"of sparse collectives: `HOW`,... the ranks' blocks overlap: full (all have the same ones), random, none (as few "+
			"as possible are the same)")
	f.Var(cmdline.IntRange(&o.BlockSize, 1, maxBlock), "block", "of sparse collectives: `ELEMENTS` of a block")
	f.Float64Var(&o.Fill, "fill", 1,
		"of sparse collectives: `PART` of the elements of such a block, more than 0 and up to 1, that are not zero, "+
			"drawn at random")
	f.Var(cmdline.LowerWord(&o.Form, forms...), "form",
		"of sparse collectives: run as `FORM`: trees, aggregators, shared (on one host), dense or compact (on "+
			"GPUs) (default: by price)")
	f.Var(cmdline.IntRange(&o.Aggregators, 1, maxAggregators), "aggregators",
		"of sparse collectives: `N` more ranks only aggregate, on slots that the others leave free, else on their hosts "+
			"in turn (default: all ranks do)")
	f.Var(cmdline.LowerWord(&o.Device, CPU, CUDA), "device",
		"`WHERE` the data are: cpu, or cuda for the GPUs' memory; --gpus and --ranks-per-gpu choose the GPUs")
	f.StringVar(&o.JSON, "json", "",
		"also write every row as a line of JSON to `FILE`; - is stdout, in place of the table")
	f.StringVar(&o.Plot, "plot", "", "draw time, how often it is the limit, and busbw over size in `FILE`.svg")
	f.Var(&o.Explain, "explain",
		"for messages of this `SIZE`, show every algorithm with its predicted and measured time, the chosen one, and "+
			"what chose it")
	f.Bool("no-topo-cache", false, "measure the links between ranks again")
	f.BoolVarP(&o.Verbose, "verbose", "v", false,
		"print on stderr the plans of the ranks, and for sparse collectives the chosen form, the density and the "+
			"predicted time of every form")
	for flag, words := range map[string][]string{"collective": collectives, "datatype": types, "op": allOps,
		"overlap": allOverlaps} {
		cmdline.SetWords(f, flag, append(slices.Clone(words), "all")...)
	}
	f.VisitAll(func(one *pflag.Flag) { one.DefValue = strings.Trim(one.DefValue, "[]") }) // those of lists
	o.Flags = f
	return o, r
}

// parse reads a command line without the subcommand's name; more adds flags that do not concern the measurements. An
// error is one of usage, and carries its exit code.
func parse(args []string, more ...func(*pflag.FlagSet)) (*Options, error) {
	o, r := newOptions()
	var own []string
	o.Flags.VisitAll(func(f *pflag.Flag) { own = append(own, f.Name) })
	for _, define := range more {
		define(o.Flags)
	}
	o.Flags.SetInterspersed(false)
	if err := cmdline.Parse(o.Flags, joinInPlace(args), othersFlags); err != nil {
		return nil, usage("%w", err)
	}
	if o.Help {
		return o, nil
	}
	if o.Flags.NArg() > 0 {
		arg, hint := o.Flags.Arg(0), ""
		if find(arg) != nil {
			hint = " (hint: --collective " + arg + ")"
		}
		return nil, usage("unexpected argument %q%s", arg, hint)
	}
	if err := o.parseLists(r); err != nil {
		return nil, err
	}
	if err := o.setExplain(own); err != nil {
		return nil, err
	}
	return o, o.check()
}

// joinInPlace joins --in-place, which may stand alone, to a value that follows it without "=".
func joinInPlace(args []string) []string {
	for i := len(args) - 2; i >= 0; i-- {
		if name := strings.TrimLeft(args[i], "-"); (name == "in-place" || name == "in_place") && passes[args[i+1]] != nil {
			args = slices.Concat(args[:i], []string{"--in-place=" + args[i+1]}, args[i+2:])
		}
	}
	return args
}

// parseLists reads the lists.
func (o *Options) parseLists(r *flagValues) (err error) {
	collectives, known := names(o.Device)
	if o.Collectives, err = parseNames("--collective", r.collectives, collectives); err != nil {
		return err
	}
	if o.Ops, err = parseNames("--op", r.ops, allOps); err != nil {
		return err
	}
	for i, name := range r.types {
		r.types[i] = cmp.Or(typeAliases[name], name)
	}
	types, err := parseNames("--datatype", r.types, known)
	if err != nil {
		return err
	}
	for _, name := range types {
		o.Types = append(o.Types, allTypes[slices.IndexFunc(allTypes, func(t Type) bool { return t.Name == name })])
	}
	if err := o.parseSparse(r.densities); err != nil {
		return err
	}
	o.Passes, o.Check = passes[r.inPlace], r.check == 1
	if o.Flags.Changed("wide") {
		o.Wide = &r.wide
	}
	return nil
}

// parseNames checks that every name of a list is known, and expands all.
func parseNames(flag string, list, known []string) ([]string, error) {
	if len(list) == 1 && list[0] == "all" {
		return known, nil
	}
	if len(list) == 0 {
		return nil, usage("%s: want at least one of %s", flag, strings.Join(known, ", "))
	}
	for i, name := range list {
		list[i] = strings.ToLower(name)
		if !slices.Contains(known, list[i]) {
			return nil, usage("%s %q: want all, or some of %s", flag, name, strings.Join(known, ", "))
		}
		if slices.Contains(list[:i], list[i]) {
			return nil, usage("%s: %s is given twice", flag, name)
		}
	}
	return list, nil
}

const maxRows = 1_000_000

func (o *Options) check() error {
	if err := o.Sweep.Check(); err != nil {
		return usage("%w", err)
	}
	switch {
	case !(o.MaxSeconds >= 0 && o.MaxSeconds <= 1e6):
		return usage("--max-seconds %v: want 0 to 1000000 seconds", o.MaxSeconds)
	case o.Device == CUDA && o.Alloc:
		return usage("--alloc is for memory of the host: it cannot be combined with --device cuda")
	case o.Flags.Changed("plot") && !strings.HasSuffix(o.Plot, ".svg"):
		return usage("--plot %s: want a file name that ends in .svg", o.Plot)
	case o.Plot != "" && o.Plot == o.JSON:
		return usage("--json and --plot are the same file, %s", o.Plot)
	case len(o.cases(1)) == 0:
		return usage("sparse collectives take the types %s and the operations %s", strings.Join(sparseTypes, ", "),
			strings.Join(sparseOps, ", "))
	}
	return nil
}

// checkRanks checks the options that depend on the number of ranks.
func (o *Options) checkRanks(np int) error {
	switch {
	case o.Explain > 0 && np == 1:
		return usage("one rank has no plan to choose: give -np 2 or more")
	case o.Root < 0 || o.Root >= np:
		return usage("-r %d: the job has the ranks 0 to %d", o.Root, np-1)
	}
	return nil
}

func usage(format string, args ...any) error {
	return cmdline.Usagef("bench: %w", fmt.Errorf(format, args...))
}

// names returns the names of the collectives and of the element types that can be measured with the data on the device.
func names(device string) (collectives, types []string) {
	for _, c := range allCollectives {
		collectives = append(collectives, c.Name)
	}
	for _, t := range allTypes {
		if device == CPU || t.Name != "int16" && t.Name != "uint16" {
			types = append(types, t.Name)
		}
	}
	return collectives, types
}
