package plan

import (
	"fmt"
	"slices"
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
	if !kind.spreads() || len(rings) == 0 {
		return nil, fmt.Errorf("plan: cannot build %v from %d rings", kind, len(rings))
	}
	n := len(rings[0])
	for i, ring := range rings {
		if err := checkRing(ring, n); err != nil {
			return nil, fmt.Errorf("plan: ring %d: %w", i, err)
		}
	}
	p := newPlan("ring", kind, n, root)
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

// ringTracks returns the tracks of one lane in the order of the ring, from the
// rank behind end, where the sum begins, to end, where it is complete and is
// handed out.
func ringTracks(kind Kind, ring []int, end int) []Track {
	n := len(ring)
	if n == 1 {
		return []Track{{Rank: 0, Steps: []Step{copyStep()}}}
	}
	at := slices.Index(ring, end)
	tracks := make([]Track, n)
	for i := range n { // i hops behind the beginning
		k := at + 1 + i
		prev, next := int32(ring[(k+n-1)%n]), int32(ring[(k+1)%n])
		// gather adds the rank's input to the sum that comes by; hand takes the
		// result that comes by and hands it on.
		gather := Step{Op: RecvReduceSend, Src: In, From: prev, To: next}
		hand := Step{Op: RecvCopySend, Dst: Out, From: prev, To: next}
		switch i {
		case 0:
			gather = sendStep(In, next)
		case n - 1:
			gather = Step{Op: RecvReduce, Src: In, Dst: Out, From: prev, To: -1}
		}
		if i == n-2 { // the last rank before the end of the lane keeps it
			hand = recvStep(Out, prev)
		}
		var steps []Step
		switch {
		case kind.bothWays() && i == n-1:
			steps = []Step{{Op: RecvReduceCopySend, Src: In, Dst: Out, From: prev, To: next}}
		case kind.bothWays():
			steps = []Step{gather, hand}
		case kind == Reduce || kind == ReduceScatter:
			steps = []Step{gather}
		case i == n-1: // a Broadcast or AllGather begins at end
			steps = []Step{sendStep(In, next), copyStep()}
		default:
			steps = []Step{hand}
		}
		tracks[i] = Track{Rank: ring[k%n], Steps: steps}
	}
	return tracks
}
