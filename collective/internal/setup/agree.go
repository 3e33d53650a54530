package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
)

// protocol is the version of the messages below and of everything that must be the same on all ranks.
const protocol = 22

// hello is the first message of New.
type hello struct {
	Protocol  int
	Settings  []string          // Config.values
	Refused   string            // the setting that the rank cannot plan with, and why
	Host      cachedHost        // from the first rank of a host; else empty
	Cores     int               // usable cores of the rank
	Machine   string            // whose cores these all are; empty: of this host only
	Place     probe.Place       // where it runs
	Decision  *planner.Decision // rank 0's for its host's graph, if that is all
	HeapBytes int               // that this rank can have
}

// Agreed checks that all ranks of w have the same value of a thing. The error names
// every value and the ranks that have it, by their numbers for users.
func Agreed[T any](w World, what string, all []T, value func(T) string) error {
	var values []string
	ranks := make(map[string][]int)
	for r, v := range all {
		s := value(v)
		if ranks[s] == nil {
			values = append(values, s)
		}
		ranks[s] = append(ranks[s], numberOf(w, r))
	}
	if len(values) <= 1 {
		return nil
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%s on %s", v, rankList(slices.Sorted(slices.Values(ranks[v]))))
	}
	return fmt.Errorf("%w on %s: %s", ErrDisagree, what, strings.Join(parts, "; "))
}

// rankList names rising ranks: "rank 3" or "ranks 0-2,5".
func rankList(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + topo.RankList(ranks)
	}
	return "ranks " + topo.RankList(ranks)
}
