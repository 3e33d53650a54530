package planner

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// Options say what a plan must be. The zero value leaves everything to the price.
type Options struct {
	Algorithm string // the name of an algorithm, or of one of its variants; "": any
	Stable    bool   // every element is added in one fixed order of the ranks, whatever its place and the size

	ArrayBound      int64   // bytes: smaller messages go over one tree alone; 0: by price
	MaxTrees        int     // packing: at most so many trees; 0: any number
	MaxHeight       float64 // packing: no rank farther from its root, in links; 0: any height
	MinRate         float64 // packing: no tree slower, in GB/s; 0: any rate
	HeightTolerance float64 // packing: lower the height while the rate stays within this share; 0: do not search
	HeightUs        bool    // packing: heights are latencies in microseconds, not numbers of links
	Greedy          bool    // packing: grow trees greedily, in place of the linear program
	Penalty         float64 // kl: factor on a link's rate each time a tree uses it; 0: tree.LinkUsagePenalty
	Seed            uint64  // of the random choices of kl and packing

	Given *Given // a plan that serves the calls of its kind and root
}

// option is one field of Options, by the name of its flag.
type option struct {
	name    string
	takers  []string // the algorithms that it belongs to; nil: all
	neutral bool     // it does not decide which algorithm is taken
	set     func(o *Options, text string) error
	get     func(o *Options) string // "" where it has its zero value
}

var overTrees = []string{"packing", "multi", "kl", "exact", "double-binary", "hierarchical", "ring"}

var options = []option{
	{"stable", nil, true, setBool(func(o *Options) *bool { return &o.Stable }), getBool(func(o *Options) bool { return o.Stable })},
	{"array-bound", overTrees, true, setBytes, func(o *Options) string { return text(float64(o.ArrayBound)) }},
	{"link-usage-penalty", []string{"kl"}, false,
		setNumber(0, 1, func(o *Options, v float64) { o.Penalty = v }), func(o *Options) string { return text(o.Penalty) }},
	{"max-trees", []string{"packing"}, false,
		setNumber(0, 1<<20, func(o *Options, v float64) { o.MaxTrees = int(v) }), func(o *Options) string { return text(float64(o.MaxTrees)) }},
	{"max-height", []string{"packing"}, false,
		setNumber(0, 1e9, func(o *Options, v float64) { o.MaxHeight = v }), func(o *Options) string { return text(o.MaxHeight) }},
	{"min-rate", []string{"packing"}, false,
		setNumber(0, topo.MaxRate, func(o *Options, v float64) { o.MinRate = v }), func(o *Options) string { return text(o.MinRate) }},
	{"height-tolerance", []string{"packing"}, false,
		setNumber(0, math.Nextafter(1, 0), func(o *Options, v float64) { o.HeightTolerance = v }),
		func(o *Options) string { return text(o.HeightTolerance) }},
	{"delay", []string{"packing"}, false, setDelay, func(o *Options) string { return map[bool]string{true: "us"}[o.HeightUs] }},
	{"greedy", []string{"packing"}, false,
		setBool(func(o *Options) *bool { return &o.Greedy }), getBool(func(o *Options) bool { return o.Greedy })},
	{"seed", []string{"packing", "kl"}, true, setSeed, func(o *Options) string {
		if o.Seed == 0 {
			return ""
		}
		return strconv.FormatUint(o.Seed, 10)
	}},
}

// Set sets an option by the name of its flag, from the text that stands behind it.
func (o *Options) Set(name, text string) error {
	for i := range options {
		if options[i].name == name {
			if err := options[i].set(o, text); err != nil {
				return fmt.Errorf("%s %q: %w", name, text, err)
			}
			return nil
		}
	}
	return fmt.Errorf("unknown option %q", name)
}

// Map returns the options that are not zero, by the names of their flags.
func (o *Options) Map() map[string]string {
	m := make(map[string]string)
	for i := range options {
		if v := options[i].get(o); v != "" {
			m[options[i].name] = v
		}
	}
	return m
}

// String is the algorithm and the options that are not zero, as ParseOptions reads them:
// "packing,max-trees=4".
func (o *Options) String() string {
	parts := []string{o.Algorithm}
	for i := range options {
		if v := options[i].get(o); v != "" {
			parts = append(parts, options[i].name+"="+v)
		}
	}
	return strings.Join(parts, ",")
}

// ParseOptions reads an algorithm, which may be empty, and options behind it:
// "packing,max-trees=4,seed=7". The result is valid.
func ParseOptions(text string) (Options, error) {
	name, rest, more := strings.Cut(text, ",")
	o := Options{Algorithm: name}
	for more {
		var one string
		one, rest, more = strings.Cut(rest, ",")
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return o, fmt.Errorf("option %q: want NAME=VALUE", one)
		}
		if err := o.Set(key, value); err != nil {
			return o, err
		}
	}
	return o, o.Validate()
}

// Validate reports an algorithm that there is not, and options that mean nothing to it.
func (o *Options) Validate() error {
	if err := checkName(o.Algorithm); err != nil {
		return err
	}
	base, _, _ := strings.Cut(o.Algorithm, ":")
	var deciding []*option
	for i := range options {
		p := &options[i]
		if p.get(o) == "" || p.takers == nil {
			continue
		}
		if base != "" && !slices.Contains(p.takers, base) {
			return fmt.Errorf("option %s means nothing to algorithm %s: it belongs to %s", p.name, base, strings.Join(p.takers, ", "))
		}
		if !p.neutral {
			deciding = append(deciding, p)
		}
	}
	if base == "" && len(deciding) > 0 && len(o.suits()) == 0 {
		var names []string
		for _, p := range deciding {
			names = append(names, fmt.Sprintf("%s (of %s)", p.name, strings.Join(p.takers, ", ")))
		}
		return fmt.Errorf("no algorithm has %s together", strings.Join(names, " and "))
	}
	return nil
}

// suits returns the algorithms that have all options which decide; nil where none does.
func (o *Options) suits() []string {
	var list []string
	for i := range options {
		p := &options[i]
		switch {
		case p.neutral || p.takers == nil || p.get(o) == "":
		case list == nil:
			list = slices.Clone(p.takers)
		default:
			list = slices.DeleteFunc(list, func(name string) bool { return !slices.Contains(p.takers, name) })
		}
	}
	return list
}

// pack returns the limits of a packing.
func (o *Options) pack() pack.Options {
	limits := pack.Options{
		MaxTrees: o.MaxTrees, MaxHeight: o.MaxHeight, MinRate: o.MinRate,
		HeightTolerance: o.HeightTolerance, Greedy: o.Greedy, Seed: o.Seed,
	}
	if o.HeightUs {
		limits.Delay = pack.Microseconds
	}
	return limits
}

// limited reports whether the trees of a packing have limits.
func (o *Options) limited() bool {
	limits := o.pack()
	limits.Seed = 0
	return limits != pack.Options{}
}

func text(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func setNumber(lo, hi float64, to func(o *Options, v float64)) func(*Options, string) error {
	return func(o *Options, text string) error {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= lo && v <= hi) {
			return fmt.Errorf("want a number from %v to %v", lo, hi)
		}
		to(o, v)
		return nil
	}
}

func setBytes(o *Options, text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return fmt.Errorf("want a number of bytes")
	}
	o.ArrayBound = v
	return nil
}

func setSeed(o *Options, text string) (err error) {
	if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
		return fmt.Errorf("want a whole number from 0 to %d", uint64(math.MaxUint64))
	}
	return nil
}

func setDelay(o *Options, text string) error {
	if text != "us" && text != "hops" {
		return fmt.Errorf("want hops or us")
	}
	o.HeightUs = text == "us"
	return nil
}

func setBool(field func(*Options) *bool) func(*Options, string) error {
	return func(o *Options, text string) (err error) {
		*field(o), err = strconv.ParseBool(text)
		return err
	}
}

func getBool(field func(*Options) bool) func(*Options) string {
	return func(o *Options) string {
		if field(o) {
			return "true"
		}
		return ""
	}
}
