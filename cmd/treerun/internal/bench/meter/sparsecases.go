package meter

import (
	"slices"
	"strconv"
)

// Overlaps are the ways in which the ranks' non-zero blocks can lie: all have the same ones; each has drawn its own; as
// few as possible are also another's.
var Overlaps = []string{"full", "random", "none"}

// Forms are the forms in which a sparse collective can run.
var Forms = []string{"trees", "aggregators", "shared", "dense", "compact"}

// sparseTypes and sparseOps are the types and operations of sparse collectives.
var (
	sparseTypes = []string{"int32", "int64", "float16", "float32", "float64", "bfloat16"}
	sparseOps   = []string{"sum", "min", "max"}
)

const (
	maxBlock       = 1 << 17 // elements of 8 bytes are the largest block then
	maxAggregators = 64      // every one has a link to every rank
)

// takeSparse reads the flags of sparse collectives.
func (o *Options) takeSparse(densities []string) error {
	for _, text := range densities {
		d, err := strconv.ParseFloat(text, 64)
		if err != nil || !(d >= 0 && d <= 1) {
			return usage("--density %q: want parts from 0 to 1, such as 0.01", text)
		}
		if slices.Contains(o.Densities, d) {
			return usage("--density: %s stands there twice", text)
		}
		o.Densities = append(o.Densities, d)
	}
	if len(o.Densities) == 0 {
		return usage("--density: want at least one")
	}
	var err error
	if o.Overlaps, err = choose("--overlap", o.Overlaps, Overlaps); err != nil {
		return err
	}
	sparse := slices.ContainsFunc(o.Collectives, func(name string) bool { return Find(name).Sparse })
	switch {
	case !(o.Fill > 0 && o.Fill <= 1):
		return usage("--fill %v: want a part above 0, up to 1", o.Fill)
	case o.Aggregators > 0 && o.Form != "" && o.Form != "aggregators":
		return usage("--aggregators is for --form aggregators, not %s", o.Form)
	case o.Form == "compact" && o.Device != CUDA:
		return usage("--form compact is for --device cuda")
	}
	for _, flag := range []string{"density", "overlap", "block", "fill", "form", "aggregators"} {
		if o.Flags.Changed(flag) && !sparse {
			return usage("--%s is for sparse collectives", flag)
		}
	}
	return nil
}

// sparse reports whether sparse collectives take elements of the type.
func (t Type) sparse() bool { return slices.Contains(sparseTypes, t.Name) }
