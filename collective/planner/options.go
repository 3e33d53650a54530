package planner

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// Options are the requirements on a plan. The zero value leaves everything to the price. A field that is zero counts as
// not given, unless Set has set it.
type Options struct {
	Algorithm string // the name of an algorithm, or of one of its variants; "": any
	Stable    bool   // every element is added in one fixed order of the ranks, for all places and sizes

	MaxTrees        int     // packing: the largest number of trees; 0: any number
	MaxHeight       float64 // packing: no rank farther from its root, in links; 0: any height
	MinRate         float64 // packing: no tree slower, in GB/s; 0: any rate
	HeightTolerance float64 // packing: lower the height while the rate stays within this share; 0: do not search
	Delay           string  // packing: "us": heights are latencies in microseconds; "" or "hops": numbers of links
	Greedy          bool    // packing: grow trees greedily, in place of the linear program
	Penalty         float64 // kl: factor on a link's rate each time a tree uses it; not given: tree.LinkUsagePenalty
	Seed            uint64  // of the random choices of kl and packing

	Given *ChosenPlan // a plan that serves the calls of its kind and root

	set uint32 // the flags that Set has set, as bits by their place among all
}

// Flag is one field of Options on a command line.
type Flag struct {
	Name   string   // without dashes
	Help   string   // for users; in backquotes stands a word for the value
	Takers []string // the algorithms that it belongs to
	Bool   bool     // it may stand alone

	neutral bool    // it does not decide which algorithm is taken
	max     float64 // of a number
	field   func(o *Options) any
}

var packs = []string{"packing"}

var flags = []Flag{
	{
		Name: "stable", Bool: true, Takers: inOrder, neutral: true, field: func(o *Options) any { return &o.Stable },
		Help: "add every element in one fixed order of the ranks, whatever the size and the place",
	}, {
		Name: "link-usage-penalty", Takers: []string{"kl"}, max: 1, field: func(o *Options) any { return &o.Penalty },
		Help: "`FACTOR` on a link's rate each time a tree uses it, 0 to 1 (default: 0.7)",
	}, {
		Name: "max-trees", Takers: packs, field: func(o *Options) any { return &o.MaxTrees },
		Help: "at most `K` trees",
	}, {
		Name: "max-height", Takers: packs, max: 1e9, field: func(o *Options) any { return &o.MaxHeight },
		Help: "no rank farther than `H` links from its root; 0: any height",
	}, {
		Name: "min-rate", Takers: packs, max: topo.MaxRate, field: func(o *Options) any { return &o.MinRate },
		Help: "no tree below `R` GB/s; 0: any rate",
	}, {
		Name: "height-tolerance", Takers: packs, field: func(o *Options) any { return &o.HeightTolerance },
		max:  math.Nextafter(1, 0),
		Help: "lower the height while the rate stays within this `SHARE` of the best, 0 to below 1",
	}, {
		Name: "delay", Takers: packs, field: func(o *Options) any { return &o.Delay },
		Help: "`HOW` heights count: hops, or us for the latencies of links",
	}, {
		Name: "greedy", Takers: packs, Bool: true, field: func(o *Options) any { return &o.Greedy },
		Help: "grow trees greedily, in place of the linear program",
	}, {
		Name: "seed", Takers: []string{"packing", "kl"}, neutral: true, field: func(o *Options) any { return &o.Seed },
		Help: "`NUMBER` that starts random choices",
	},
}

// value returns the value of flag i as set reads it, "" where it is not given.
func (o *Options) value(i int) string {
	v := reflect.ValueOf(flags[i].field(o)).Elem()
	if v.IsZero() && o.set>>i&1 == 0 {
		return ""
	}
	return fmt.Sprint(v.Interface())
}

// demands reports whether flag i is given and requires something: false does not.
func (o *Options) demands(i int) bool {
	value := o.value(i)
	return value != "" && value != "false"
}

func (f *Flag) set(o *Options, text string) (err error) {
	switch v := f.field(o).(type) {
	case *bool:
		if *v, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("want true or false")
		}
	case *string:
		if *v = text; text != "hops" && text != "us" {
			return fmt.Errorf("want hops or us")
		}
	case *uint64:
		if *v, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("want a whole number from 0 to %d", uint64(math.MaxUint64))
		}
	case *int:
		if *v, err = strconv.Atoi(text); err != nil || *v < 1 || *v > plan.MaxLanes {
			return fmt.Errorf("want a whole number from 1 to %d", plan.MaxLanes)
		}
	case *float64:
		if *v, err = strconv.ParseFloat(text, 64); err == nil && *v >= 0 && *v <= f.max {
			return nil
		}
		if f.max < 1 {
			return fmt.Errorf("want a share from 0 to below 1")
		}
		return fmt.Errorf("want a number from 0 to %v", f.max)
	}
	return err
}

// Flags returns the options of algorithms.
func Flags() []Flag { return slices.Clone(flags) }

// Set sets an option by the name of its flag, from the text of the flag's value, or with the name "algorithm" from a
// text for ParseOptions. The option counts as given even if its value is zero.
func (o *Options) Set(name, text string) error {
	if name == "algorithm" {
		return o.setAll(text)
	}
	for i := range flags {
		if flags[i].Name == name {
			o.set |= 1 << i
			return flags[i].set(o, text)
		}
	}
	return fmt.Errorf("unknown option %q", name)
}

// setAll reads an algorithm, and options behind it.
func (o *Options) setAll(text string) error {
	list := strings.Split(text, ",")
	if err := checkName(list[0]); err != nil {
		return err
	}
	o.Algorithm = list[0]
	for _, one := range list[1:] {
		key, value, ok := strings.Cut(one, "=")
		if !ok || key == "algorithm" {
			return fmt.Errorf("option %q: want NAME=VALUE", one)
		}
		if err := o.Set(key, value); err != nil {
			return fmt.Errorf("option %s=%q: %w", key, value, err)
		}
	}
	return nil
}

// Map returns the options that are given, by the names of their flags.
func (o *Options) Map() map[string]string {
	m := make(map[string]string)
	for i := range flags {
		if v := o.value(i); v != "" {
			m[flags[i].Name] = v
		}
	}
	return m
}

// String is the algorithm and the options that are given, as ParseOptions reads them:
// "packing,max-trees=4".
func (o *Options) String() string {
	parts := []string{o.Algorithm}
	for i := range flags {
		if v := o.value(i); v != "" {
			parts = append(parts, flags[i].Name+"="+v)
		}
	}
	return strings.Join(parts, ",")
}

// ParseOptions reads an algorithm, which may be empty, and options behind it:
// "packing,max-trees=4,seed=7". The result is valid.
func ParseOptions(text string) (Options, error) {
	var o Options
	if err := o.setAll(text); err != nil {
		return o, err
	}
	return o, o.Validate()
}

// Validate reports an algorithm that there is not, and options that mean nothing to it.
func (o *Options) Validate() error {
	if err := checkName(o.Algorithm); err != nil {
		return err
	}
	base, _, _ := strings.Cut(o.Algorithm, ":")
	var deciding []*Flag
	for i := range flags {
		p := &flags[i]
		if !o.demands(i) {
			continue
		}
		value := o.value(i)
		if err := p.set(&Options{}, value); err != nil {
			return fmt.Errorf("option %s=%q: %w", p.Name, value, err)
		}
		if base != "" && !slices.Contains(p.Takers, base) {
			return fmt.Errorf("option %s means nothing to algorithm %s: it belongs to %s",
				p.Name, base, strings.Join(p.Takers, ", "))
		}
		if !p.neutral {
			deciding = append(deciding, p)
		}
	}
	if base == "" && len(deciding) > 0 && len(o.Suits()) == 0 {
		names := namesOf(deciding, func(f *Flag) string { return f.Name + " (of " + strings.Join(f.Takers, ", ") + ")" })
		return fmt.Errorf("no algorithm has %s together", strings.Join(names, " and "))
	}
	return nil
}

// Suits returns the algorithm that is requested, or those that have all options which decide; nil where none does.
func (o *Options) Suits() []string {
	if o.Algorithm != "" {
		return []string{o.Algorithm}
	}
	var list []string
	for i := range flags {
		p := &flags[i]
		switch {
		case p.neutral || !o.demands(i):
		case list == nil:
			list = slices.Clone(p.Takers)
		default:
			list = slices.DeleteFunc(list, func(name string) bool { return !slices.Contains(p.Takers, name) })
		}
	}
	return list
}

// pack returns the limits of a packing.
func (o *Options) pack() pack.Options {
	return pack.Options{
		MaxTrees: o.MaxTrees, MaxHeight: o.MaxHeight, MinRate: o.MinRate,
		HeightTolerance: o.HeightTolerance, HeightUs: o.Delay == "us", Greedy: o.Greedy, Seed: o.Seed,
	}
}

// limited reports whether the trees of a packing have limits.
func (o *Options) limited() bool {
	limits := o.pack()
	limits.Seed = 0
	return limits != pack.Options{}
}

// penalty returns the factor of kl on a link's rate each time a tree uses it.
func (o *Options) penalty() float64 {
	if o.Map()["link-usage-penalty"] == "" {
		return tree.LinkUsagePenalty
	}
	return o.Penalty
}
