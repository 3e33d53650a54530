package plan

import "fmt"

// Way is a way in which the sums of a Scan go from rank to rank.
type Way uint8

// The ways.
const (
	AtOnce   Way = iota // every rank sends its input to all behind it: a message is waited for once
	InRounds            // sums go to the rank at distance 1, 2, 4, ...: a message is waited for log2(ranks) times
	InARow              // sums go from each rank to the next: every byte is sent once
)

// NewScan builds a Scan or an ExScan, in which all sums are made in the order of the ranks. One track does it on each
// rank.
//
// In an ExScan in rounds every rank first gives its input to the next one, which continues with it: apart from that it
// is a Scan of all ranks but the first.
func NewScan(kind Kind, size int, way Way) (*Plan, error) {
	name := fmt.Sprintf("scan %s", [...]string{"at once", "in rounds", "in a row"}[way])
	p, err := newPlan(name, kind, size, -1, Kind.Scans)
	if err != nil {
		return nil, err
	}
	return p.withLanes(1, nil, func(_, _ int) (tracks []Track) {
		for r := range size {
			if steps := scanSteps(kind, size, r, way); len(steps) > 0 {
				tracks = append(tracks, Track{r, steps})
			}
		}
		return tracks
	})
}

// scanSteps returns the steps of rank r.
func scanSteps(kind Kind, size, r int, way Way) (steps []Step) {
	if kind == ExScan && way == InARow {
		return exScanInARow(size, r)
	}
	sum, first := In, 0 // the buffer of the sum so far, and the first rank that adds
	if kind == ExScan && way == InRounds {
		if first = 1; r+1 < size {
			steps = append(steps, sendStep(In, int32(r+1)))
		}
		if sum = Out; r > 0 {
			steps = append(steps, recvStep(Out, int32(r-1)))
		}
	}
	switch {
	case r < first:
		return steps
	case way == AtOnce:
		var terms []int
		for q := range size {
			if q > r {
				steps = append(steps, sendStep(In, int32(q)))
			} else if q < r || kind == Scan {
				terms = append(terms, q)
			}
		}
		if len(terms) == 0 {
			return steps
		}
		more, sum := addSteps(r, terms, In, Out)
		return append(steps, inOut(more, sum)...)
	}
	for step := 1; step < size; step *= 2 {
		send, receive := r+step < size, r-step >= first
		switch s := (Step{Op: RecvReduce, Src: sum, Dst: Out, From: int32(r - step), To: -1}); {
		case way == InARow && send && receive:
			s.Op, s.To = RecvReduceCopySend, int32(r+step)
			steps = append(steps, s)
		case way == InRounds && send && receive:
			steps = append(steps, sendStep(sum, int32(r+step)), s)
		case send:
			steps = append(steps, sendStep(sum, int32(r+step)))
		case receive:
			steps = append(steps, s)
		}
		if receive {
			sum = Out
		}
		if way == InARow {
			break
		}
	}
	return inOut(steps, sum)
}

// exScanInARow returns the steps of rank r. It copies its input before the sum of the ranks before it arrives, as In
// may be the memory of Out.
func exScanInARow(size, r int) []Step {
	before, behind := int32(r-1), int32(r+1)
	switch {
	case size == 1:
		return nil
	case r == 0:
		return []Step{sendStep(In, behind)}
	case r == size-1:
		return []Step{recvStep(Out, before)}
	}
	return []Step{{Op: Copy, Src: In, Dst: Tmp, From: -1, To: -1}, recvStep(Out, before),
		{Op: LocalReduce, Src: Out, Dst: Tmp, From: -1, To: -1}, sendStep(Tmp, behind)}
}
