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
	variants []string // strings that may stand behind its name and a colon
	// ranks is the largest number of ranks on which it is tried without a request by name: above, its search, or its plan
	// and the plan's links, grow too large. 0: any number.
	ranks  int
	paired bool // it takes no links between hosts but those that join all ranks, or as few
	// plans returns the candidates of a kind and root (-1 where the kind has none).
	// Where the algorithm does not apply the error is a reason. nil: one tree per root.
	plans func(p *Planner, kind plan.Kind, root int) ([]*Candidate, error)
}

// algorithms has all algorithms, the simple ones first: of candidates with the same price
// the first wins.
var algorithms = []algorithm{
	{"flat", nil, directRanks, true, (*Planner).flat},
	{"hierarchical", nil, 0, true, (*Planner).hierarchical}, // see checkHierarchy
	{"star", ofTrees, PairRanks, true, (*Planner).star},
	{"direct", []string{variantSingle, variantSplit, variantOne, variantAll}, directRanks, false, (*Planner).direct},
	{"doubling", nil, PairRanks, true, (*Planner).doubling},
	{"double-binary", ofTrees, 0, false, (*Planner).doubleBinary},
	{"multi", ofTrees, 0, false, (*Planner).multi},
	{"packing", ofTrees, 0, false, (*Planner).packing},
	// As in MXNet: one tree per root, each use of a link making it less attractive to later trees.
	{"kl", ofTrees, PairRanks, false, nil},
	// For every root the balanced tree with the largest sum of rates.
	{"exact", ofTrees, jointRanks, false, nil},
	{"ring", ofTrees, directRanks, false, (*Planner).ring},
	{"chain", ofTrees, 0, false, (*Planner).chain},
}

// jointRanks is the largest number of ranks on which trees of all roots are improved jointly, and exact ones searched
// for, without a request by name.
const jointRanks = 8

// candidatesOf returns those of an algorithm for a kind and root, or the reason for none.
func (p *Planner) candidatesOf(a *algorithm, kind plan.Kind, root int) ([]*Candidate, error) {
	switch {
	case pairwise(kind) && a.name != "direct":
		return nil, reasonf("data goes from rank to rank")
	case p.Site.ordered(kind) && !slices.Contains(inOrder, a.name):
		return nil, unordered()
	case p.asked(a.name) || p.Site.ordered(kind) || pairwise(kind):
	case a.ranks > 0 && p.Site.graph.Ranks > a.ranks:
		return nil, reasonf("not tried above %d ranks for the work that it takes: --algorithm %s does", a.ranks,
			a.name)
	case p.Site.tooManyLinks(a, kind):
		return nil, reasonf("not tried for the links that it takes, which memory of the host carries: "+
			"--algorithm %s does", a.name)
	}
	if a.plans == nil {
		return p.ofRoots(a.name, kind, root)
	}
	return a.plans(p, kind, root)
}

// tooManyLinks reports whether an algorithm's plans would take more links than they are worth where links are memory of
// a host, which a communicator maps for all plans that it may choose. Chains are tried for AllReduce, balanced trees
// for all collectives, where links differ; double binary trees on more ranks than have a link to each other. Rings take
// 2n links per rank: 2,268 for 9 ranks of two sockets, where all others take some hundreds.
func (s *Site) tooManyLinks(a *algorithm, kind plan.Kind) bool {
	n := s.graph.Ranks
	switch {
	case a.paired || s.machine.Device || s.disconnected != nil:
		return false
	case s.hosts != nil:
		return s.hosts.most > 1
	}
	switch a.name {
	case "direct":
		return false
	case "multi":
		return s.uniform && (n <= directRanks || n > PairRanks && kind.HasRoot())
	case "double-binary":
		return n <= PairRanks || s.uniform && !kind.HasRoot()
	case "chain":
		return s.uniform || kind.HasRoot() || kind.HasParts()
	}
	return true
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

// reason is the reason why an algorithm has no candidate.
type reason string

func (r reason) Error() string { return string(r) }

func reasonf(format string, args ...any) error { return reason(fmt.Sprintf(format, args...)) }

// asked reports whether Options name an algorithm, so that limits which save time do
// not hold for it.
func (p *Planner) asked(name string) bool {
	return !p.any && slices.ContainsFunc(p.Site.options.Suits(), func(suits string) bool {
		base, _, _ := strings.Cut(suits, ":")
		return base == name || name == "hierarchical" && p.Site.hosts.alone() && slices.Contains(betweens, base)
	})
}

// Matches reports whether a candidate is one that a name of Options.Algorithm means:
// "direct" means "direct:single" and "direct:split", "" means all.
func (c *Candidate) Matches(name string) bool {
	full := c.Name()
	if c.Variant == "" && len(c.Channels) > 0 {
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

// The strings that may stand behind the colon of a name.
const (
	variantOne    = "one"    // a tree that carries all of a small message
	variantAll    = "all"    // all trees, each with a share
	variantSingle = "single" // one track on each rank
	variantSplit  = "split"  // sending and receiving side by side
)

var ofTrees = []string{variantOne, variantAll}
