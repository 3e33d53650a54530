package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Form is the way in which the way up and the way down of an AllReduce share a rank.
type Form uint8

// The forms. Kinds that go one way only are the same in both.
const (
	Single Form = iota // one track: no switching between tracks; for small messages
	Split              // two tracks on every rank but the root: chunks flow both ways at once; for many chunks
)

// FromTrees builds the collective kind over trees, one lane each, with the
// share weights[i] of the message on trees[i]; nil weights are equal. All
// trees span the same ranks; for Reduce and Broadcast they have the same root.
// For AllGather and ReduceScatter every tree has a lane per part, in which it
// hangs from the rank whose part it is: the root it comes with does not matter.
//
// Upwards a rank reduces its children in the order of topo.Tree.Children, the
// last one straight into the window of its parent. Downwards it serves them in
// the reverse order: the deepest subtree first.
func FromTrees(kind Kind, trees []topo.Tree, weights []float64, form Form) (*Plan, error) {
	p, err := ofTrees(kind, trees, "trees(%d)", Kind.spreads)
	if err != nil {
		return nil, err
	}
	switch {
	case len(trees) == 1 && kind.HasParts():
		p.Name = "tree"
	case len(trees) == 1:
		p.Name = fmt.Sprintf("tree(root %d)", trees[0].Root)
	}
	if form == Split && kind.bothWays() {
		p.Name += " split"
	}
	return p.withLanes(len(trees), weights, func(i, part int) []Track {
		t := trees[i]
		if kind.HasParts() {
			t = t.Reroot(part)
		}
		return treeTracks(kind, t, form)
	})
}

// FromPartTrees builds an AllGather or a ReduceScatter in which every part has
// trees of its own: those with the rank whose part it is as their root. A tree
// of the share weights[i] carries that share of its part, over the sum of the
// weights of the part's trees; nil weights are equal. Every rank must be the
// root of one tree at least. A lane goes as FromTrees lets it go.
func FromPartTrees(kind Kind, trees []topo.Tree, weights []float64) (*Plan, error) {
	p, err := ofTrees(kind, trees, "part trees(%d)", func(k Kind) bool { return k.spreads() && k.HasParts() })
	if err != nil {
		return nil, err
	}
	return p.withTrees(trees, weights, func(t topo.Tree) ([]Track, error) { return treeTracks(kind, t, Single), nil })
}

// ofTrees returns a plan without lanes over the ranks and the root of trees, which it
// checks. name has their number.
func ofTrees(kind Kind, trees []topo.Tree, name string, can func(Kind) bool) (*Plan, error) {
	if len(trees) == 0 {
		return nil, errors.New("plan: no trees")
	}
	root, n := trees[0].Root, len(trees[0].Parent)
	for i, t := range trees {
		if err := t.Validate(n); err != nil {
			return nil, fmt.Errorf("plan: tree %d: %w", i, err)
		}
		if kind.HasRoot() && t.Root != root {
			return nil, fmt.Errorf("plan: tree %d has root %d, tree 0 has %d: a %v needs one root", i, t.Root, root, kind)
		}
	}
	return newPlan(fmt.Sprintf(name, len(trees)), kind, n, root, can)
}

// withTrees gives a plan a lane for every tree, of the part of its root where the message
// has parts, and validates it.
func (p *Plan) withTrees(trees []topo.Tree, weights []float64, build func(topo.Tree) ([]Track, error)) (*Plan, error) {
	for i, t := range trees {
		tracks, err := build(t)
		if err != nil {
			return nil, fmt.Errorf("plan %s: tree %d: %w", p.Name, i, err)
		}
		part := 0
		if p.Kind.HasParts() {
			part = t.Root
		}
		p.Lanes = append(p.Lanes, newLane(part, weights, i, tracks))
	}
	slices.SortStableFunc(p.Lanes, func(a, b Lane) int { return a.Part - b.Part })
	return p, p.Validate()
}

// treeTracks returns the tracks of a lane that adds in any order: there none is refused.
func treeTracks(kind Kind, t topo.Tree, form Form) []Track {
	tracks, _ := newOverTree(kind, t, form).tracks()
	return tracks
}

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

// Ordered builds a reduction over trees, one lane each with its share, such that every element is added in one order,
// in all lanes: the ranks of a host in their order, then the hosts in theirs. VerifyStable proves it. kind is
// AllReduce, Barrier, Reduce or ReduceScatter, where every tree carries a share of the part of its root. A rank whose
// values the order does not let it add passes them on one by one. In the form Split the sum is made where that happens
// least often, and goes from there to the root, or to all; in Single the root makes it if it can.
//
// It is an error where no rank can make the sum of a tree: the inputs of a host come to it in pieces, and there is no
// place for their sum.
func Ordered(kind Kind, trees []topo.Tree, weights []float64, hosts [][]int, form Form) (*Plan, error) {
	p, err := ofTrees(kind, trees, "trees(%d) stable", Kind.adds)
	if err == nil {
		err = checkHosts(hosts, p.Size)
	}
	if err != nil {
		return nil, err
	}
	return p.withTrees(trees, weights, func(t topo.Tree) ([]Track, error) { return orderedTracks(kind, t, hosts, form) })
}

// orderedTracks returns the tracks of a lane over t in which the sum is made at the rank
// where the fewest values travel, or at the root.
func orderedTracks(kind Kind, t topo.Tree, hosts [][]int, form Form) (best []Track, err error) {
	least := 0
	for d := 0; d < len(t.Parent) && (best == nil || form == Split); d++ {
		top := (t.Root + d) % len(t.Parent)
		l := newOverTree(kind, t.Reroot(top), form)
		l.hosts = hosts
		for v := top; v != t.Root && !kind.bothWays(); v = t.Parent[v] {
			l.path = append(l.path, t.Parent[v])
		}
		tracks, failed := l.tracks()
		if failed != nil {
			err = failed
		} else if n := l.values(); best == nil || n < least {
			best, least = tracks, n
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}

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
			return fmt.Errorf("rank %d is given twice", r)
		}
		seen[r] = true
	}
	return nil
}

// ringTracks returns the tracks of one lane: up a chain that ends at end, and down another that begins there.
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
