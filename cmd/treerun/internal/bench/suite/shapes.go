package suite

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Point is what was found of all shapes of plan for one case. Rank 0 sends it
// where shapes are compared: with --tune and --explain.
type Point struct {
	Collective string      `json:"collective"`
	NP         int         `json:"np"`
	Bytes      int64       `json:"bytes"`
	Candidates []Candidate `json:"candidates"` // at least one, in the order of the shapes

	// With --explain: what a job chooses and by what, and what the links allow.
	Chosen string `json:"chosen,omitempty"`
	By     string `json:"by,omitempty"`
	Links  string `json:"links,omitempty"`
}

// Candidate is one shape of plan.
type Candidate struct {
	Plan        string   `json:"plan"`
	Us          float64  `json:"us"`                     // median, on the slowest rank
	PredictedUs *float64 `json:"predicted_us,omitempty"` // with --explain, where it is known
}

// Shapes tells whether shapes of plan are compared, in place of rows.
func (o *Options) Shapes() bool { return o.Tune || o.Explain > 0 }

// tuned are the collectives that --tune measures when none are named: those
// with a choice.
var tuned = []string{"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall", "barrier"}

// What comparing shapes takes where nothing was said.
const (
	tuneEnd        = 64 << 20
	tuneFactor     = 4
	tuneIterations = 200
	tuneSeconds    = 1 // of a size, with all shapes
)

// takeShapes sets the defaults of --tune and --explain, and refuses flags that
// mean nothing there: of bench's own ones most, of the others, which say where
// ranks run, all with --tune, which is for one host.
func (o *Options) takeShapes(own []string) error {
	if !o.Shapes() {
		return nil
	}
	mode, known := "--tune", []string{"tune", "np", "collective", "begin", "end", "factor", "iterations", "warmup", "max-seconds", "no-topo-cache", "verbose"}
	if o.Explain > 0 {
		mode, known = "--explain", []string{"explain", "np", "collective", "iterations", "warmup", "max-seconds", "no-topo-cache", "verbose"}
	}
	var surplus []string
	o.Flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) && (o.Tune || slices.Contains(own, f.Name)) {
			surplus = append(surplus, "--"+f.Name)
		}
	})
	if len(surplus) > 0 {
		return usage("%s does not go with %s", mode, strings.Join(surplus, ", "))
	}
	defaults := map[string]func(){
		"iterations":  func() { o.Iterations = tuneIterations },
		"max-seconds": func() { o.MaxSeconds = tuneSeconds },
	}
	if o.Tune {
		defaults["collective"] = func() { o.Collectives = slices.Clone(tuned) }
		defaults["end"] = func() { o.End = tuneEnd }
		defaults["factor"] = func() { o.Factor = tuneFactor }
	} else {
		o.Begin, o.End = o.Explain, o.Explain
	}
	for flag, set := range defaults {
		if !o.Flags.Changed(flag) {
			set()
		}
	}
	o.Passes = []bool{false}
	for _, name := range o.Collectives {
		if c := Find(name); c.OneByOne {
			return usage("%s: %s has no plan", mode, name)
		}
	}
	return nil
}

// CheckRanks checks what depends on the number of ranks.
func (o *Options) CheckRanks(np int) error {
	if o.Shapes() && np == 1 {
		return usage("one rank by itself has no plan to choose; give -np 2 or more")
	}
	return o.CheckRoot(np)
}

// MatchesPoint tells whether p is of this case on np ranks.
func (c *Case) MatchesPoint(p *Point, np int) bool {
	return p.Collective == c.Name && p.NP == np && p.Bytes == c.Bytes && len(p.Candidates) > 0
}
