package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// A plan that went wrong in a single step must never pass Verify. The test
// makes every such mutant of every plan, direct or over some trees, rings
// and hosts, of 2..9 ranks (2..6 under the race detector):
//
//   - a step left out, done twice, or changed for its neighbor,
//   - another rank in From or To,
//   - another buffer in Src or Dst,
//   - another Op, with every way to fill the fields which the new Op needs.
//
// A mutant that Verify takes must be equivalent to the plan (see harmless).
func TestVerifyRejectsEveryMutant(t *testing.T) {
	largest := testutil.Count(6, 9)
	if testutil.Race { // which has nothing to find in a package of one goroutine
		largest = 6
	}
	for n := 2; n <= largest; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			mutants, equal := 0, 0
			seen := make(map[string]bool)
			for _, p := range mutantPlans(t, n) {
				m, e := checkMutants(t, p, seen)
				mutants += m
				equal += e
			}
			t.Logf("%d mutants rejected, %d harmless ones taken", mutants, equal)
			if mutants < 1000 || equal == 0 && n > 2 {
				t.Errorf("%d mutants and %d harmless ones: the test has lost its subject", mutants, equal)
			}
		})
	}
}

// mutantPlans returns plans of every kind and form over n ranks.
func mutantPlans(t *testing.T, n int) []*Plan {
	var plans []*Plan
	keep := func(p *Plan, err error) {
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, p)
	}
	ring := rand.New(rand.NewPCG(1, uint64(n))).Perm(n)
	hosts := unevenHosts(n)
	keep(Leaders(AllReduce, Alone(n), Everybody))
	for _, kind := range []Kind{AllReduce, Reduce, Broadcast, AllGather, ReduceScatter, Gather, Scatter, AllToAll} {
		for _, form := range []Form{Single, Split} {
			keep(Direct(kind, n, n-1, form))
		}
	}
	for _, kind := range reductions {
		for _, form := range []Form{Single, Split} {
			keep(DirectHosts(kind, [][]int{ranks(n)}, n-1, form))
			if n > 7 {
				continue // nothing new
			}
			keep(DirectHosts(kind, hosts, n-1, form))
			keep(DirectHosts(kind, spread(n, min(n, 4)), 0, form))
		}
	}
	for _, kind := range allKinds {
		keep(FromRings(kind, [][]int{ring}, nil, n/2))
		for _, form := range []Form{Single, Split} {
			if form == Split && !kind.bothWays() {
				continue // the same as Single
			}
			trees := append(mutantTrees(n), overHosts(hosts))
			if kind.HasParts() {
				trees = trees[2:] // n lanes each; rooted at any rank, they have chains and stars too
			}
			for _, tree := range trees {
				keep(FromTrees(kind, []topo.Tree{tree}, nil, form))
			}
		}
	}
	return plans
}

// unevenHosts spreads n ranks over hosts of one, two and three ranks.
func unevenHosts(n int) (hosts [][]int) {
	for next := 0; next < n; {
		size := min(1+len(hosts)%3, n-next)
		hosts = append(hosts, ranks(n)[next:next+size])
		next += size
	}
	return hosts
}

// overHosts is a chain in every host, whose first ranks a binary tree joins.
func overHosts(hosts [][]int) topo.Tree {
	var t topo.Tree
	for h, ranks := range hosts {
		for i, r := range ranks {
			parent := r - 1
			if i == 0 && h > 0 {
				parent = hosts[(h-1)/2][0]
			}
			t.Parent = append(t.Parent, parent)
		}
	}
	return t
}

// mutantTrees returns trees of different shapes and roots: a chain, a star, a
// binary tree and a binomial one.
func mutantTrees(n int) []topo.Tree {
	chain := topo.Tree{Parent: make([]int, n)}
	star := topo.Tree{Parent: make([]int, n)}
	binary := topo.Tree{Parent: make([]int, n)}
	binomial := topo.Tree{Parent: make([]int, n)}
	for v := range n {
		chain.Parent[v] = v - 1
		binary.Parent[v] = (v+1)/2 - 1
		binomial.Parent[v] = v & (v - 1)
	}
	star.Parent[0], binomial.Parent[0] = -1, -1
	return []topo.Tree{chain.Renamed(turned(n, n/2)), star.Renamed(turned(n, 1)), binary, binomial.Renamed(turned(n, n-1))}
}

// turned returns new names for n ranks: each moves on by the given number.
func turned(n, by int) []int {
	order := make([]int, n)
	for v := range order {
		order[v] = (v + by) % n
	}
	return order
}

// checkMutants tries all mutants of p and returns how many Verify rejected and how many harmless ones it took. Of each
// it runs the lane that it is in: Verify checks every lane by itself, and the others are right. Verify does not care
// which rank is which: a lane that was in another plan too, in the same role, or with other names for its ranks, is not
// tried again. Where all ranks do the same, one of them is enough.
func checkMutants(t *testing.T, p *Plan, seen map[string]bool) (rejected, equal int) {
	if err := Verify(p, 2); err != nil {
		t.Fatalf("%v\n%v", err, p)
	}
	for lane := range p.Lanes {
		what := renamed(p, lane, 0)
		if seen[what] {
			continue
		}
		alike := p.Size > 1 && what == renamed(p, lane, 1)
		for by := range p.Size {
			seen[renamed(p, lane, by)] = true
		}
		r, e := checkLane(t, p, lane, alike)
		rejected += r
		equal += e
	}
	return rejected, equal
}

// renamed returns a lane as text, as Verify sees it when every rank r is called r+by, modulo their number.
func renamed(p *Plan, lane, by int) string {
	name := func(r int32) int32 {
		if r < 0 {
			return r
		}
		return (r + int32(by)) % int32(p.Size)
	}
	var tracks []Track
	for _, t := range p.Lanes[lane].Tracks {
		steps := slices.Clone(t.Steps)
		for i := range steps {
			steps[i].From, steps[i].To = name(steps[i].From), name(steps[i].To)
		}
		tracks = append(tracks, Track{int(name(int32(t.Rank))), steps})
	}
	slices.SortStableFunc(tracks, func(a, b Track) int { return a.Rank - b.Rank })
	role := p.role(lane)
	role.in, role.out = int(name(int32(role.in))), int(name(int32(role.out)))
	var b strings.Builder
	fmt.Fprint(&b, role)
	for _, t := range tracks {
		fmt.Fprint(&b, "\n", t.Rank)
		for _, s := range t.Steps {
			b.Write([]byte{' ', byte('a' + s.Op), byte('a' + s.Src), byte('a' + s.Dst), byte('b' + s.From), byte('b' + s.To)})
		}
	}
	return b.String()
}

// checkLane tries the mutants of a lane; of one rank only, if all ranks have the same steps.
func checkLane(t *testing.T, p *Plan, lane int, alike bool) (rejected, equal int) {
	for ti := range p.Lanes[lane].Tracks {
		track := &p.Lanes[lane].Tracks[ti]
		if alike && track.Rank > 0 {
			continue
		}
		steps := track.Steps
		for _, m := range mutations(p, track.Rank, steps) {
			track.Steps = m.steps
			err := p.validateLane(lane)
			if err == nil {
				err = p.verifyLane(lane, 2, nil)
			}
			var verify *VerifyError
			switch {
			case m.harmless && err != nil:
				t.Errorf("%v, but %s of step %d does the same:\n%v", err, m.what, m.at, p)
			case !m.harmless && err == nil:
				t.Errorf("Verify takes %s of step %d in track %d of lane %d:\n%v", m.what, m.at, ti, lane, p)
			case err != nil && !errors.As(err, &verify):
				t.Errorf("%v is a %T", err, err)
			case m.harmless:
				equal++
			default:
				rejected++
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		track.Steps = steps
	}
	return rejected, equal
}

// harmless reports whether steps a and b, one after the other, do the same in the other order:
//   - both send from one buffer to different ranks, or copy it,
//   - both add to one buffer values from different ranks, or the rank's own input: a sum may round differently then,
//     but its symbols are the same,
//   - one sends In, which the other, that waits for a rank which has sent
//     already, does not overwrite as it stores in Tmp,
//   - both store in Out, but in different parts,
//   - one adds in Tmp and the other in Out values from different ranks.
func harmless(kind Kind, a, b Step) bool {
	gives := func(s Step) bool { return s.Op == Send || s.Op == Copy }
	adds := func(s Step) bool { return s.Op == RecvReduce && s.Src == s.Dst || s.Op == LocalReduce }
	stores := func(s Step) bool { return s.Op == Recv || s.Op == Copy }
	touches := func(s Step) int { // in place, In is Out
		src := s.Src
		if src == In {
			src = Out
		}
		return (1<<src | 1<<s.Dst) &^ (1 << None)
	}
	keeps := func(s Step) bool { return s.Op == Recv || adds(s) }
	return gives(a) && gives(b) && a.Src == b.Src && a.To != b.To ||
		adds(a) && adds(b) && a.Dst == b.Dst && a.From != b.From ||
		a.Op == Send && a.Src == In && b.Op.Receives() && b.To < 0 && b.Dst == Tmp ||
		keeps(a) && keeps(b) && a.From != b.From && touches(a)&touches(b) == 0 ||
		kind == AllToAll && stores(a) && stores(b) && a.From != b.From
}

// sameValue reports whether steps a and b, behind others, send the same value to
// the same rank: from tmp, or from out, where tmp was copied to.
func sameValue(before []Step, a, b Step) bool {
	a.Src, b.Src = min(a.Src, b.Src), max(a.Src, b.Src)
	i := slices.Index(before, Step{Op: Copy, Src: Tmp, Dst: Out, From: -1, To: -1})
	return a.Op == Send && a.Src == Out && b == Step{Op: Send, Src: Tmp, From: -1, To: a.To} && i >= 0 &&
		!slices.ContainsFunc(before[i:], func(s Step) bool { return s.Dst == Tmp })
}

type mutation struct {
	what     string
	at       int
	steps    []Step
	harmless bool
}

// mutations returns all mutants of the steps of one track.
func mutations(p *Plan, rank int, steps []Step) []mutation {
	var all []mutation
	add := func(what string, at int, m []Step, harmless bool) {
		all = append(all, mutation{what, at, m, harmless})
	}
	for i, s := range steps {
		add("deletion", i, slices.Delete(slices.Clone(steps), i, i+1), false)
		add("repetition", i, slices.Insert(slices.Clone(steps), i, s), false)
		if i+1 < len(steps) {
			m := slices.Clone(steps)
			m[i], m[i+1] = m[i+1], m[i]
			add("exchange", i, m, harmless(p.Kind, s, steps[i+1]))
		}
		for _, other := range replacements(p, rank, s) {
			m := slices.Clone(steps)
			m[i] = other
			add("replacement", i, m, sameValue(steps[:i], s, other))
		}
	}
	return all
}

// replacements returns all steps that differ from s in one field, or in the Op
// and the fields that the new one needs.
func replacements(p *Plan, rank int, s Step) []Step {
	var all []Step
	for r := int32(-1); r <= int32(p.Size); r++ {
		from, to := s, s
		from.From, to.To = r, r
		all = append(all, from, to)
	}
	for b := None; b <= Tmp+1; b++ {
		src, dst := s, s
		src.Src, dst.Dst = b, b
		all = append(all, src, dst)
	}
	for op := Op(0); op <= LocalReduce+1; op++ {
		plain := s
		plain.Op = op
		all = append(all, plain)
		all = append(all, refitted(p, rank, s, op)...)
	}
	return slices.DeleteFunc(all, func(other Step) bool { return other == s })
}

// refitted returns all steps with the given op that keep the fields of s that op needs too.
func refitted(p *Plan, rank int, s Step, op Op) []Step {
	if !op.valid() {
		return nil
	}
	keep := func(used bool, have int32, choices []int32) []int32 {
		switch {
		case !used:
			return []int32{-1}
		case have >= 0:
			return []int32{have}
		}
		return choices
	}
	var peers []int32
	for r := range int32(p.Size) {
		if int(r) != rank {
			peers = append(peers, r)
		}
	}
	var all []Step
	for _, from := range keep(op.Receives(), s.From, peers) {
		for _, to := range keep(op.Sends(), s.To, peers) {
			for _, src := range keep(op.Reads(), int32(s.Src)-1, []int32{0, 1, 2}) {
				for _, dst := range keep(op.Writes(), int32(s.Dst)-1, []int32{1, 2}) {
					all = append(all, Step{Op: op, Src: Buf(src + 1), Dst: Buf(dst + 1), From: from, To: to})
				}
			}
		}
	}
	return all
}
