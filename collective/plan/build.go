package plan

import "fmt"

// newPlan returns a plan without lanes, of a kind that can be built so. root is used where
// kind has one.
func newPlan(name string, kind Kind, size, root int, can func(Kind) bool) (*Plan, error) {
	if !kind.HasRoot() {
		root = -1
	}
	if !can(kind) {
		return nil, fmt.Errorf("plan %s: it has no %v", name, kind)
	}
	p := &Plan{Name: name, Kind: kind, Size: size, Root: root}
	return p, p.validateHead()
}

// withLanes gives a plan n lanes for every part, with the tracks that build
// returns, and validates it.
func (p *Plan) withLanes(n int, weights []float64, build func(i, part int) []Track) (*Plan, error) {
	parts := 1
	if p.Kind.lanePerPart() {
		parts = p.Size
	}
	if n > MaxLanes/parts {
		return nil, fmt.Errorf("plan %s: %d lanes for each of %d parts, want at most %d in all", p.Name, n, parts, MaxLanes)
	}
	for part := range parts {
		for i := range n {
			p.Lanes = append(p.Lanes, newLane(part, weights, i, build(i, part)))
		}
	}
	return p, p.Validate()
}

// newLane returns a lane with weight number i; nil weights are equal.
func newLane(part int, weights []float64, i int, tracks []Track) Lane {
	l := Lane{Part: part, Weight: 1, Tracks: tracks}
	if weights != nil {
		l.Weight = weights[i]
	}
	return l
}

func sendStep(src Buf, to int32) Step { return Step{Op: Send, Src: src, From: -1, To: to} }

func recvStep(dst Buf, from int32) Step { return Step{Op: Recv, Dst: dst, From: from, To: -1} }

func copyStep() Step { return Step{Op: Copy, Src: In, Dst: Out, From: -1, To: -1} }
