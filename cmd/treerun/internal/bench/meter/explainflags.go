package meter

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Defaults for comparing shapes.
const (
	explainIterations = 200
	explainSeconds    = 1 // of a size, with all shapes
)

// takeExplain sets the defaults of --explain, and refuses those of bench's own
// flags that mean nothing there.
func (o *Options) takeExplain(own []string) error {
	if o.Explain == 0 {
		return nil
	}
	known := []string{"explain", "np", "collective", "iters", "warmup", "max-seconds", "no-topo-cache", "verbose"}
	var surplus []string
	o.Flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) && slices.Contains(own, f.Name) {
			surplus = append(surplus, "--"+f.Name)
		}
	})
	switch {
	case len(surplus) > 0:
		return usage("--explain cannot be combined with %s", strings.Join(surplus, ", "))
	case o.Explain%4 != 0:
		return usage("--explain %s: want whole elements, which are float32 here, of 4 bytes each", &o.Explain)
	}
	if !o.Flags.Changed("iters") {
		o.Iterations = explainIterations
	}
	if !o.Flags.Changed("max-seconds") {
		o.MaxSeconds = explainSeconds
	}
	o.Begin, o.End = o.Explain, o.Explain
	o.Passes = []bool{false}
	for _, name := range o.Collectives {
		if c := Find(name); c.OneByOne {
			return usage("--explain: %s has no plan", name)
		}
	}
	return nil
}
