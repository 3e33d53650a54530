package plan

import (
	"fmt"
	"slices"
)

// FromRings builds the collective kind over rings, each an order of all ranks
// in which every rank sends to the next and the last one to the first. Ring i
// has the share weights[i] of the message; nil weights are equal. root is used
// by Reduce and Broadcast only. A ring has no forms: opt.Form is not looked at.
//
// These are NCCL's ring algorithms. An AllReduce cuts a ring's share in one
// piece per rank, each of them a lane: the piece is reduced once round the ring
// and then handed out once round it, so that every link carries 2(n-1)/n of the
// share one way. AllGather and ReduceScatter are one half of that each.
// Broadcast and Reduce are a chain that begins or ends at the root.
func FromRings(kind Kind, rings [][]int, weights []float64, root int, opt Options) (*Plan, error) {
	switch {
	case !kind.spreads():
		return nil, fmt.Errorf("plan: cannot build %v from rings", kind)
	case len(rings) == 0:
		return nil, fmt.Errorf("plan: %v from no rings", kind)
	case weights != nil && len(weights) != len(rings):
		return nil, fmt.Errorf("plan: %d weights for %d rings", len(weights), len(rings))
	}
	p := &Plan{Name: opt.Name, Kind: kind, Size: len(rings[0]), Root: -1}
	if p.Name == "" {
		p.Name = "ring"
		if len(rings) > 1 {
			p.Name = fmt.Sprintf("rings(%d)", len(rings))
		}
	}
	if kind.HasRoot() {
		if root < 0 || root >= p.Size {
			return nil, fmt.Errorf("plan: root %d of a %v is not a rank of 0..%d", root, kind, p.Size-1)
		}
		p.Root = root
	}
	for i, ring := range rings {
		if err := checkRing(ring, p.Size); err != nil {
			return nil, fmt.Errorf("plan: ring %d: %w", i, err)
		}
	}
	var err error
	if kind.bothWays() {
		n := p.Size
		pieces := make([]float64, 0, len(rings)*n)
		for i := range rings {
			pieces = append(pieces, slices.Repeat([]float64{weightOf(weights, i)}, n)...)
		}
		err = p.addLanes(len(pieces), pieces, func(i, _ int) []Track { return ringTracks(kind, rings[i/n], i%n) })
	} else {
		err = p.addLanes(len(rings), weights, func(i, part int) []Track {
			if kind.HasRoot() {
				part = root
			}
			return ringTracks(kind, rings[i], part)
		})
	}
	if err != nil {
		return nil, err
	}
	return p, nil
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
	at := 0
	for ring[at] != end {
		at++
	}
	tracks := make([]Track, n)
	for i := range n { // i hops behind the beginning
		k := (at + 1 + i) % n
		v := ringNode{place: i, n: n, prev: int32(ring[(k+n-1)%n]), next: int32(ring[(k+1)%n])}
		var steps []Step
		switch {
		case kind.bothWays() && i == n-1:
			steps = []Step{{Op: RecvReduceCopySend, Src: In, Dst: Out, From: v.prev, To: v.next}}
		case kind.bothWays():
			steps = []Step{v.gather(), v.hand()}
		case kind == Reduce || kind == ReduceScatter:
			steps = []Step{v.gather()}
		case i == n-1: // a Broadcast or AllGather begins at end
			steps = []Step{sendStep(In, v.next), copyStep()}
		default:
			steps = []Step{v.hand()}
		}
		tracks[i] = Track{Rank: ring[k], Steps: steps}
	}
	return tracks
}

// ringNode is one rank's place in a lane of a ring of at least two ranks.
type ringNode struct {
	place, n   int
	prev, next int32
}

// gather adds the rank's input to the sum that comes by.
func (v ringNode) gather() Step {
	switch v.place {
	case 0:
		return sendStep(In, v.next)
	case v.n - 1:
		return Step{Op: RecvReduce, Src: In, Dst: Out, From: v.prev, To: -1}
	}
	return Step{Op: RecvReduceSend, Src: In, From: v.prev, To: v.next}
}

// hand takes the result that comes by and hands it on; the last rank before
// the end of the lane keeps it.
func (v ringNode) hand() Step {
	if v.place == v.n-2 {
		return Step{Op: Recv, Dst: Out, From: v.prev, To: -1}
	}
	return Step{Op: RecvCopySend, Dst: Out, From: v.prev, To: v.next}
}
