package planner

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/numbers"
)

// size is a number of bytes on the command line.
type size = cmdline.Size

// option is a flag that sets a field of options.
func option(o *planner.Options, name, kind string) *cmdline.Value {
	return &cmdline.Value{Kind: kind, From: func(text string) error { return o.Set(name, text) },
		Write: func() string { return o.Map()[name] }}
}

// defineOptions adds --algorithm and the options of algorithms, seed with a prefix.
func defineOptions(f *pflag.FlagSet, o *planner.Options, prefix string) {
	f.Var(option(o, "algorithm", "VALUE"), "algorithm",
		"`NAME`: "+broken(planner.Algorithms())+
			"\n(default: by predicted time); options may follow, as in packing,max-trees=4")
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

// broken joins words to lines that fit into the help.
func broken(words []string) string {
	return strings.Join(numbers.Wrapped(strings.Join(words, ", "), 60), "\n")
}
