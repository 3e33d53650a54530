package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// algorithm makes candidates for a collective on the graph of a Planner.
type algorithm struct {
	name     string
	variants []string // what may stand behind its name and a colon
	// plans returns the candidates of a kind and root (-1 where the kind has none).
	// Where the algorithm does not apply, or would take too long and was not asked for
	// by name, the error is a reason.
	plans func(p *Planner, kind plan.Kind, root int) ([]*Candidate, error)
}

// algorithms has all algorithms. Of candidates with the same price the first wins.
var algorithms = []algorithm{
	{"flat", nil, (*Planner).flat},
	{"hierarchical", nil, (*Planner).hierarchical}, // see checkHierarchy
	{"multi", ofTrees, (*Planner).multi},
	{"doubling", nil, (*Planner).doubling},
	{"star", ofTrees, (*Planner).star},
	{"direct", []string{variantSingle, variantSplit, variantOne, variantAll}, (*Planner).direct},
	{"double-binary", ofTrees, (*Planner).doubleBinary},
	{"packing", ofTrees, (*Planner).packing},
	{"kl", ofTrees, (*Planner).kl},
	{"exact", ofTrees, (*Planner).exact},
	{"ring", ofTrees, (*Planner).ring},
	{"chain", ofTrees, (*Planner).chain},
}

// Algorithms returns the names that Options.Algorithm takes. A part of a
// hierarchical name, as in "hierarchical:multi/packing", may follow.
func Algorithms() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

// reason says why an algorithm has no candidate.
type reason string

func (r reason) Error() string { return string(r) }

func because(format string, args ...any) error { return reason(fmt.Sprintf(format, args...)) }

// asked reports whether Options name an algorithm, so that limits which save time do
// not hold for it.
func (p *Planner) asked(name string) bool {
	return !p.any && slices.ContainsFunc(p.options.suits(), func(suits string) bool {
		base, _, _ := strings.Cut(suits, ":")
		return base == name || name == "hierarchical" && p.hosts.alone() && slices.Contains(betweens, base)
	})
}

// Matches reports whether a candidate is one that a name of Options.Algorithm means:
// "direct" means "direct:single" and "direct:split", "" means all.
func (c *Candidate) Matches(name string) bool {
	full := c.Name()
	if c.Variant == "" && len(c.Strands) > 0 {
		full += ":" + variantAll // between hosts no other one may be left
	}
	return name == "" || full == name || strings.HasPrefix(full, name+":")
}

// checkName reports a name that no algorithm has.
func checkName(name string) error {
	base, variant, more := strings.Cut(name, ":")
	at := slices.Index(Algorithms(), base)
	switch {
	case name == "":
		return nil
	case at < 0:
		return fmt.Errorf("unknown algorithm %q: want one of %s", name, strings.Join(Algorithms(), ", "))
	case base == "hierarchical" && more:
		return checkHierarchy(variant)
	case more && len(algorithms[at].variants) == 0:
		return fmt.Errorf("algorithm %q has no variants", base)
	case more && !slices.Contains(algorithms[at].variants, variant):
		return fmt.Errorf("algorithm %q has no variant %q: want one of %s",
			base, variant, strings.Join(algorithms[at].variants, ", "))
	}
	return nil
}

// What may stand behind the colon of a name.
const (
	variantOne    = "one"    // a tree that carries all of a small message
	variantAll    = "all"    // all trees, each with a share
	variantSingle = "single" // one track on each rank
	variantSplit  = "split"  // sending and receiving side by side
)

var ofTrees = []string{variantOne, variantAll}
