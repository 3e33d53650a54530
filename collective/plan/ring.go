package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// FromRings builds the collective kind over rings, each an order of all ranks
// in which every rank sends to the next and the last one to the first. Ring i
// has the share weights[i] of the message; nil weights are equal. root is used
// by Reduce and Broadcast only.
//
// These are NCCL's ring algorithms. An AllReduce cuts a ring's share in one
// piece per rank, each of them a lane: the piece is reduced once round the ring
// and then handed out once round it, so that every link carries 2(n-1)/n of the
// share one way. AllGather and ReduceScatter are one half of that each.
// Broadcast and Reduce are a chain that begins or ends at the root.
func FromRings(kind Kind, rings [][]int, weights []float64, root int) (*Plan, error) {
	if len(rings) == 0 {
		return nil, errors.New("plan: no rings")
	}
	n := len(rings[0])
	for i, ring := range rings {
		if err := checkRing(ring, n); err != nil {
			return nil, fmt.Errorf("plan: ring %d: %w", i, err)
		}
	}
	p, err := newPlan("ring", kind, n, root, Kind.spreads)
	if err != nil {
		return nil, err
	}
	if len(rings) > 1 {
		p.Name = fmt.Sprintf("rings(%d)", len(rings))
	}
	if kind.bothWays() {
		var pieces []float64
		for _, w := range weights {
			pieces = append(pieces, slices.Repeat([]float64{w}, n)...)
		}
		return p.withLanes(len(rings)*n, pieces, func(i, _ int) []Track { return ringTracks(kind, rings[i/n], i%n) })
	}
	return p.withLanes(len(rings), weights, func(i, part int) []Track {
		if kind.HasRoot() {
			part = root
		}
		return ringTracks(kind, rings[i], part)
	})
}

func checkRing(ring []int, n int) error {
	if len(ring) < 1 || len(ring) != n {
		return fmt.Errorf("%d ranks, want %d", len(ring), n)
	}
	seen := make([]bool, n)
	for _, r := range ring {
		if r < 0 || r >= n {
			return fmt.Errorf("rank %d is unknown, want 0..%d", r, n-1)
		}
		if seen[r] {
			return fmt.Errorf("rank %d stands twice", r)
		}
		seen[r] = true
	}
	return nil
}

// ringTracks returns the tracks of one lane: up a chain that ends at end, and down another
// that goes on from there.
func ringTracks(kind Kind, ring []int, end int) []Track {
	n := len(ring)
	chain := func() topo.Tree { return topo.Tree{Root: end, Parent: make([]int, n)} }
	up, down := chain(), chain()
	for i, r := range ring {
		next := ring[(i+1)%n]
		up.Parent[r], down.Parent[next] = next, r
	}
	up.Parent[end], down.Parent[end] = -1, -1
	l := newOverTree(kind, up, Single)
	l.down = down
	tracks, _ := l.tracks()
	return tracks
}
