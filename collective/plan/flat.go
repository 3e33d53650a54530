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
// nobody is everybody's first; in place the result overwrites the input in the
// last step.
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
		for v := range tracks {
			tracks[v] = Track{Rank: v, Steps: flatSteps(v, size)}
		}
		return tracks
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// flatSteps returns the steps of rank v of n. The sum grows in Tmp, as in place
// nothing may be stored in Out while In is needed; the last step completes it in
// Out. Only the last rank needs a Copy for that, since what it adds last is not
// received but its own.
func flatSteps(v, n int) []Step {
	if n == 1 {
		return []Step{copyStep()}
	}
	steps := make([]Step, 0, 2*n)
	for d := 1; d < n; d++ {
		steps = append(steps, sendStep(In, int32((v+d)%n)))
	}
	sum := None // nothing yet
	if v == 0 {
		sum = In
	}
	for r := range n {
		from := int32(r)
		switch {
		case r == v && v <= 1:
			continue // In is where the sum begins
		case r == v:
			steps = append(steps, Step{Op: LocalReduce, Src: In, Dst: Tmp, From: -1, To: -1})
			continue
		case r == 0 && v == 1:
			steps = append(steps, Step{Op: RecvReduce, Src: In, Dst: Tmp, From: from, To: -1})
		case r == 0:
			steps = append(steps, recvStep(Tmp, from))
		default:
			steps = append(steps, Step{Op: RecvReduce, Src: sum, Dst: Tmp, From: from, To: -1})
		}
		sum = Tmp
	}
	if last := &steps[len(steps)-1]; last.Op != LocalReduce {
		last.Dst = Out
		return steps
	}
	return append(steps, Step{Op: Copy, Src: Tmp, Dst: Out, From: -1, To: -1})
}
