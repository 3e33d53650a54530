package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// algorithm makes candidates for collectives. A new one is a file with its function, a line in the table algorithms,
// and a test. Most search for trees: see query.overTrees, and ofRoots for those that have one tree per root.
type algorithm struct {
	name     string
	variants []string // strings that may stand behind its name and a colon
	// maxRanks is the largest number of ranks on which it is tried without a request by name: above, its search, or
	// its plan and the plan's links, grow too large. 0: any number.
	maxRanks int
	fewLinks bool // it takes no links between hosts but those that join all ranks, or as few
	pairwise bool // it has plans for the kinds that move every part from one rank to another
	scans    bool // it has plans for Scan and ExScan
	// linksPay reports whether its plans are worth the links that they take where these are memory of one host. nil:
	// they are not.
	linksPay func(s *Site, kind plan.Kind) bool
	// candidates returns the candidates for a query. Where the algorithm does not apply the error is a reason.
	candidates func(q *query) ([]*Candidate, error)
}

// algorithms has all algorithms, the simple ones first: of candidates with the same price the first wins.
var algorithms = []algorithm{
	{name: "flat", maxRanks: directRanks, fewLinks: true, scans: true, candidates: flat},
	{name: "hierarchical", fewLinks: true, candidates: hierarchical}, // see checkHierarchy for its variants
	{name: "star", variants: ofTrees, maxRanks: PairRanks, fewLinks: true, candidates: star},
	{name: "direct", variants: ofSlices, maxRanks: directRanks, pairwise: true, linksPay: always, candidates: direct},
	{name: "doubling", maxRanks: PairRanks, fewLinks: true, scans: true, candidates: doubling},
	{name: "double-binary", variants: ofTrees, linksPay: doubleBinaryPays, candidates: doubleBinary},
	{name: "multi", variants: ofTrees, linksPay: multiPays, candidates: multi},
	{name: "packing", variants: append(slices.Clone(ofTrees), variantLow), candidates: packing},
	{name: "kl", variants: ofOwnTrees, maxRanks: PairRanks, candidates: kl},
	{name: "exact", variants: ofOwnTrees, maxRanks: jointRanks, candidates: exact},
	{name: "ring", variants: ofTrees, maxRanks: directRanks, candidates: ring},
	{name: "chain", variants: ofTrees, scans: true, linksPay: chainPays, candidates: chain},
}

// PairRanks is the largest number of ranks with links between all pairs, directRanks the largest for which those
// are worth their memory for each rank that owns a slice, and jointRanks the largest on which trees of all roots are
// improved jointly, and exact ones searched for, without a request by name.
const (
	PairRanks   = 128
	directRanks = 16
	jointRanks  = 8
)

// candidatesOf returns the candidates of an algorithm for a query, or the reason for none.
func (a *algorithm) candidatesOf(q *query) ([]*Candidate, error) {
	switch {
	case pairwise(q.kind) && !a.pairwise:
		return nil, reasonf("data goes from rank to rank")
	case q.kind.Scans() && !a.scans:
		return nil, reasonf("every rank gets another sum")
	case q.ordered() && !slices.Contains(inOrder, a.name):
		return nil, unordered()
	case q.requests(a.name) || q.ordered() || pairwise(q.kind):
	case a.maxRanks > 0 && q.site.graph.Ranks > a.maxRanks:
		return nil, tooMuchWork(a.name, a.maxRanks)
	case !q.kind.Scans() && a.tooManyLinks(q):
		return nil, reasonf("not tried for the links that it takes, which memory of the host carries: "+
			"--algorithm %s does", a.name)
	}
	return a.candidates(q)
}

// tooManyLinks reports whether an algorithm's plans would take more links than they are worth where links are memory of
// a host, which a communicator maps for all plans that it may choose. Chains are tried for AllReduce, balanced trees
// for all collectives, where links differ; double binary trees on more ranks than have a link to each other. Rings take
// 2n links per rank: 2,268 for 9 ranks of two sockets, where all others take some hundreds.
func (a *algorithm) tooManyLinks(q *query) bool {
	s := q.site
	switch {
	case a.fewLinks || s.machine.Device || s.disconnected != nil:
		return false
	case s.hosts != nil:
		return s.hosts.most > 1
	}
	return a.linksPay == nil || !a.linksPay(s, q.kind)
}

func always(*Site, plan.Kind) bool { return true }

// pairwise reports whether a kind moves every part from one rank to another, so that no
// tree helps.
func pairwise(kind plan.Kind) bool {
	return kind == plan.Gather || kind == plan.Scatter || kind == plan.AllToAll
}

// Algorithms returns the names that Options.Algorithm takes. A part of a
// hierarchical name, as in "hierarchical:multi/packing", may follow.
func Algorithms() []string {
	return namesOf(algorithms, func(a algorithm) string { return a.name })
}

func namesOf[T any](list []T, name func(T) string) (names []string) {
	for _, x := range list {
		names = append(names, name(x))
	}
	return names
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
	variantOwn    = "own"    // the root's own tree, which carries all of a message
	variantLow    = "low"    // all trees, each with a share, of the least height at nearly the same rate
)

var (
	ofTrees    = []string{variantOne, variantAll}
	ofOwnTrees = []string{variantOne, variantAll, variantOwn}
	ofSlices   = []string{variantSingle, variantSplit, variantOne, variantAll}
)

// variantNeeds has the conditions of variants that an algorithm does not have everywhere.
var variantNeeds = map[string]string{
	variantOwn: "it is for collectives with a root, where links differ",
	variantLow: "it is for devices, without a limit on number, height or rate of trees",
}

// reason is the reason why an algorithm has no candidate.
type reason string

func (r reason) Error() string { return string(r) }

// tooMuchWork is the reason of an algorithm that is not tried above a number of ranks.
func tooMuchWork(algorithm string, ranks int) error {
	return reasonf("not tried above %d ranks for the work that it takes: --algorithm %s does", ranks, algorithm)
}

func reasonf(format string, args ...any) error { return reason(fmt.Sprintf(format, args...)) }
