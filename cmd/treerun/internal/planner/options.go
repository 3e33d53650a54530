package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// option is a flag that means something to some algorithms only.
type option struct {
	name    string
	neutral bool     // auto may take an algorithm that it does not belong to
	of      []string // the algorithms that it belongs to
}

var options = []option{
	{"root", false, []string{"kl", "exact", "chain", "star"}}, // Reduce and Broadcast: all
	{"link-usage-penalty", false, []string{"kl"}},
	{"array-bound", true, []string{"packing", "multi", "kl", "exact", "double-binary", "hierarchical", "ring"}},
	{"max-trees", false, []string{"packing"}},
	{"max-height", false, []string{"packing"}},
	{"min-rate", false, []string{"packing"}},
	{"height-tolerance", false, []string{"packing"}},
	{"greedy", false, []string{"packing"}},
	{"seed", true, []string{"packing", "kl"}},
}

// belong checks that every option on the command line means something to the
// algorithm, or with auto that some algorithm has them all, and notes them.
func (r *request) belong(f *pflag.FlagSet) error {
	for _, o := range options {
		if f.Changed(o.name) {
			r.given = append(r.given, o)
		}
	}
	if r.algorithm == "auto" {
		return r.someSuits()
	}
	for _, o := range r.given {
		if r.means(o, r.algorithm) {
			continue
		}
		if slices.Contains(o.of, r.algorithm) {
			return usage("--%s means nothing to %s where it makes one tree only: leave it out, or leave out --root with a collective that has none", o.name, r.algorithm)
		}
		hint := ""
		if o.name == "root" {
			hint = ", and for reduce and broadcast to every algorithm"
		}
		return usage("--%s means nothing to --algorithm %s with %s: it belongs to %s%s", o.name, r.algorithm, r.kind, and(o.of), hint)
	}
	return nil
}

// someSuits checks that there is an algorithm for auto to take.
func (r *request) someSuits() error {
	var flags []string
	for _, o := range r.given {
		if !o.neutral && !(o.name == "root" && r.kind.HasRoot()) {
			flags = append(flags, "--"+o.name+" (for "+and(o.of)+")")
		}
	}
	for _, name := range algorithmNames()[1:] {
		if r.suits(name) {
			return nil
		}
	}
	return usage("no algorithm has %s together", and(flags))
}

// suits tells whether auto may take an algorithm: all options that are given,
// but for those that change no more than details, mean something to it.
func (r *request) suits(algorithm string) bool {
	for _, o := range r.given {
		if !o.neutral && !r.means(o, algorithm) {
			return false
		}
	}
	return true
}

// means tells whether an option means something to an algorithm.
func (r *request) means(o option, algorithm string) bool {
	perRoot := algorithm == "kl" || algorithm == "exact" // which make a single tree for --root
	switch {
	case o.name == "root" && r.kind.HasRoot():
		return true
	case perRoot && r.root >= 0 && (o.name == "link-usage-penalty" || o.name == "array-bound"):
		return false
	}
	return slices.Contains(o.of, algorithm)
}

// and joins words as a sentence does.
func and(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// isRadius tells whether a note of a packing says that no tree is as low as was
// asked for.
func isRadius(note string) bool { return strings.HasPrefix(note, "no spanning tree has a height") }

// unkept says which limits of the request the strands of a candidate do not
// keep. The algorithm's own notes say why.
func (r *request) unkept(c *candidate) []string {
	if c.algorithm != "packing" || r.g.Ranks == 1 {
		return nil
	}
	var list []string
	o := r.pack
	if n := len(c.strands); o.MaxTrees > 0 && n > o.MaxTrees {
		list = append(list, fmt.Sprintf("--max-trees %d is not kept: there are %d trees", o.MaxTrees, n))
	}
	deepest := 0
	for i := range c.strands {
		deepest = max(deepest, c.strands[i].tree.Depth())
	}
	least := ""
	if slices.ContainsFunc(c.notes, isRadius) {
		least = ", and none over the graph's links has less"
	}
	if o.MaxHeight > 0 && float64(deepest) > o.MaxHeight {
		list = append(list, fmt.Sprintf("--max-height %v is not kept: a tree has height %d%s", o.MaxHeight, deepest, least))
	}
	slowest := c.strands[0].rate
	for i := range c.strands {
		slowest = min(slowest, c.strands[i].rate)
	}
	if slowest < o.MinRate*(1-1e-6) {
		list = append(list, fmt.Sprintf("--min-rate %v is not kept: a tree has %.4g GB/s", o.MinRate, slowest))
	}
	return list
}
