package setup

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
)

// protocol is the version of the messages below and of everything that ranks
// must do alike.
const protocol = 21

// hello is the first message of New.
type hello struct {
	Protocol  int
	Settings  []string          // Config.values
	Refused   string            // what of the settings the rank cannot plan with
	Host      cachedHost        // what the first rank of a host knows of it
	Cores     int               // usable cores of the rank
	Machine   string            // whose cores they are, of all of it; empty: nobody else's
	Place     probe.Place       // where it runs
	Decision  *planner.Decision // rank 0's for its host's graph, if that is all
	HeapBytes int               // that this rank can have
}

// exchange gives all ranks v, by an AllGather of so many, and returns what all ranks gave, by rank. Ranks that gave the
// same may share what it refers to.
func exchange[T any](ctx context.Context, size int, g allGather, v T) ([]T, error) {
	blob, err := msgpack.Marshal(&v)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	blobs, err := g(ctx, blob)
	if err != nil {
		return nil, err
	}
	if len(blobs) != size {
		return nil, fmt.Errorf("the all-gather gave %d blobs for %d ranks", len(blobs), size)
	}
	all := make([]T, len(blobs))
	for r, b := range blobs {
		if r > 0 && bytes.Equal(b, blobs[r-1]) {
			all[r] = all[r-1] // most ranks say the same
			continue
		}
		if err := strict.Unmarshal(b, &all[r]); err != nil {
			return nil, fmt.Errorf("message of rank %d: %w", r, err)
		}
	}
	return all, nil
}

// Agreed checks that all ranks of w have the same value of a thing. The error names
// every value and the ranks that have it, as numberOf does.
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
