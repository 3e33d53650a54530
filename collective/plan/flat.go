package plan

import "fmt"

// Flat builds the flat exchange of kind over size ranks: everybody sends its
// whole input to everybody and makes the result by itself. That is size-1 times
// the bytes of any other plan and the fewest times that a rank waits for
// another, once: for messages so small that only the waiting counts. kind is
// AllReduce, Barrier or AllGather.
//
// Every rank combines the inputs in the order of the ranks, ((x0 op x1) op x2)
// and so on, up to which operand stands first: for an op that is commutative
// bit for bit, as those on floats are, all ranks get the same bits. One track
// does it on each rank. It sends first, to the ranks behind it in turn, so that
// nobody is everybody's first; in place the sum overwrites the input once that is
// in it.
//
// An AllGather has nothing to combine, and a lane for every part: it is Direct's.
func Flat(kind Kind, size int) (*Plan, error) {
	switch {
	case kind == AllGather:
		return Direct(kind, size, -1, Options{Name: "flat"})
	case !kind.bothWays():
		return nil, fmt.Errorf("plan: cannot build %v as a flat exchange: want %v, %v or %v", kind, AllReduce, Barrier, AllGather)
	case size < 1 || size > MaxRanks:
		return nil, fmt.Errorf("plan: flat exchange over %d ranks, want 1..%d", size, MaxRanks)
	}
	p := &Plan{Name: "flat", Kind: kind, Size: size, Root: -1}
	err := p.addLanes(1, nil, func(_, _ int) []Track {
		tracks := make([]Track, size)
		ranks := inOrder(size)
		for v := range tracks {
			tracks[v] = Track{Rank: v, Steps: leaderSteps(v, nil, ranks, Everybody)}
		}
		return tracks
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
