package plan

import (
	"fmt"
	"slices"
)

// DirectHosts builds a reduction over several hosts such that every element is
// added in one order, whatever its place in the message: the ranks of a host in
// their order, then the hosts in theirs. VerifyStable proves it. kind is AllReduce,
// Barrier, Reduce or ReduceScatter; root is used by Reduce only. hosts has the
// ranks of every host, all ranks together; one host is Direct with Options.Stable.
//
// Every rank owns a slice, a lane. On each of the other hosts one rank, the
// slice's leader there, adds the inputs of its host, all hosts' ranks in turn; the
// owner adds the sums of the hosts, and sends the result to its own host's ranks
// and to the leaders, who hand it on. So a byte crosses to the owner's host once
// for its reduction and back once for its result. Each host owns as much as any
// other, its ranks in equal parts.
//
// The owner makes two sums, that of its host and that of all hosts, in one pass
// where its host is one of the first two: a sum of two does not mind which stands
// first. A rank that has no Out has no place for a second one: in a Reduce another
// rank of the owner's host adds there.
//
// A ReduceScatter has a slice for every part, which the rank owns whose part it is.
// In a Reduce over three hosts or more the root's host owns nothing: its card has
// the result to take in, which all its ranks do in turn, for the root. Over two it
// owns everything, so that results stay there.
func DirectHosts(kind Kind, hosts [][]int, root int, form Form) (*Plan, error) {
	p := newPlan(fmt.Sprintf("direct(%d hosts) stable", len(hosts)), kind, len(slices.Concat(hosts...)), root)
	if err := checkHosts(hosts, p.Size); err != nil {
		return nil, fmt.Errorf("plan %s: %w", p.Name, err)
	}
	if !kind.bothWays() && kind != Reduce && kind != ReduceScatter {
		return nil, fmt.Errorf("plan: cannot build %v over hosts directly: it adds nothing", kind)
	}
	if err := p.validateHead(); err != nil {
		return nil, err
	}
	d := newDirectHosts(hosts, p.Size)
	if kind == ReduceScatter {
		return p.withLanes(1, nil, func(_, part int) []Track { return d.tracks(kind, part, part, form) })
	}
	owners, weights := d.owners(p.Root)
	return p.withLanes(len(owners), weights, func(i, _ int) []Track { return d.tracks(kind, owners[i], p.Root, form) })
}

// checkHosts checks that every host has ranks, n all together.
func checkHosts(hosts [][]int, n int) error {
	for i, ranks := range hosts {
		if len(ranks) == 0 {
			return fmt.Errorf("host %d has no rank", i)
		}
	}
	if err := checkRing(slices.Concat(hosts...), n); err != nil {
		return fmt.Errorf("the hosts: %w", err)
	}
	return nil
}

// directHosts is who is where.
type directHosts struct {
	hosts       [][]int
	host, place []int // by rank: its host, and where it stands there
}

func newDirectHosts(hosts [][]int, n int) *directHosts {
	d := &directHosts{hosts: hosts, host: make([]int, n), place: make([]int, n)}
	for h, ranks := range hosts {
		for i, r := range ranks {
			d.host[r], d.place[r] = h, i
		}
	}
	return d
}

// owners returns the ranks that own slices, with their shares, for a root or -1.
func (d *directHosts) owners(root int) (owners []int, weights []float64) {
	for h, ranks := range d.hosts {
		if n := len(d.hosts); root >= 0 && n > 1 && (n == 2) != (h == d.host[root]) {
			continue
		}
		for _, r := range ranks {
			owners, weights = append(owners, r), append(weights, 1/float64(len(ranks)))
		}
	}
	return owners, weights
}

// adder returns the rank that adds the inputs of a host for a slice.
func (d *directHosts) adder(kind Kind, host, owner int) int {
	ranks, at := d.hosts[host], d.place[owner]
	if kind == Reduce && host == d.host[owner] && host > 1 {
		at++ // not the owner, unless it is alone
	}
	return ranks[at%len(ranks)]
}

// tracks returns the tracks of the slice of owner, by rank. root gets the result
// of a Reduce.
func (d *directHosts) tracks(kind Kind, owner, root int, form Form) []Track {
	if len(d.host) == 1 {
		return []Track{{Rank: 0, Steps: []Step{copyStep()}}}
	}
	via := root // who passes the result of a Reduce on to the root
	if kind == Reduce && d.host[root] != d.host[owner] {
		via = d.adder(kind, d.host[root], owner)
	}
	var tracks []Track
	for v := range d.host {
		give, take := d.give(kind, v, owner), []Step(nil)
		switch {
		case v == owner && kind == Reduce && v != root:
			steps, sum := d.sum(kind, owner, Tmp)
			take = sendSum(steps, sum, via)
		case v == owner:
			take = inOut(d.sum(kind, owner, Out))
			if kind.bothWays() {
				node := d.node(v, owner)
				take = append(take, node.serve(Out, len(node.children))...)
			}
		case kind.bothWays():
			take = d.node(v, owner).down(None)
		case kind == Reduce && v == root && v != via:
			take = []Step{recvStep(Out, int32(via))}
		case kind == Reduce && v == root:
			take = []Step{recvStep(Out, int32(owner))}
		case kind == Reduce && v == via:
			take = []Step{recvStep(Tmp, int32(owner)), sendStep(Tmp, int32(root))}
		}
		tracks = appendTracks(tracks, v, form, give, take)
	}
	return tracks
}

// give returns the steps in which v, with its input, does its part for the sum of
// its host; none where that is part of what the owner does.
func (d *directHosts) give(kind Kind, v, owner int) []Step {
	adder := d.adder(kind, d.host[v], owner)
	switch {
	case v != adder:
		return []Step{sendStep(In, int32(adder))}
	case v == owner:
		return nil
	}
	steps, sum := addSteps(v, d.hosts[d.host[v]], d.place[v], In, Tmp)
	return sendSum(steps, sum, owner)
}

// sum returns the steps in which the owner makes the whole sum, and where it is
// then: in acc, or in Tmp or In.
func (d *directHosts) sum(kind Kind, owner int, acc Buf) (steps []Step, sum Buf) {
	at := d.host[owner]
	ranks := d.hosts[at]
	var terms []int
	for h := range d.hosts {
		terms = append(terms, d.adder(kind, h, owner))
	}
	switch {
	case terms[at] != owner || len(ranks) == 1:
		return addSteps(owner, terms, at, In, acc)
	case at <= 1: // the sum of its host, and then the others
		return addSteps(owner, slices.Concat(ranks, slices.Delete(terms, at, at+1)), d.place[owner], In, acc)
	}
	steps, _ = addSteps(owner, ranks, d.place[owner], In, Tmp)
	more, sum := addSteps(owner, terms, at, Tmp, acc)
	return append(steps, more...), sum
}

// addSteps returns the steps in which rank v adds what the ranks of terms send, in
// their order, and says where the sum is then. Term number own is what v has in the
// buffer mine, if it is v; else another rank sends it for v. The sum grows in acc,
// but in Tmp as long as v has its input to add: in place, acc may be there.
func addSteps(v int, terms []int, own int, mine, acc Buf) (steps []Step, sum Buf) {
	if own == 1 && terms[1] == v { // a sum of two does not mind which stands first
		terms, own = slices.Concat([]int{v}, terms[:1], terms[2:]), 0
	}
	for i, r := range terms {
		dst := acc
		if i < own && mine == In {
			dst = Tmp
		}
		switch {
		case r == v && i == 0:
			dst = mine
		case r == v:
			dst = sum
			steps = append(steps, Step{Op: LocalReduce, Src: mine, Dst: sum, From: -1, To: -1})
		case i == 0:
			steps = append(steps, recvStep(dst, int32(r)))
		default:
			steps = append(steps, Step{Op: RecvReduce, Src: sum, Dst: dst, From: int32(r), To: -1})
		}
		sum = dst
	}
	return steps, sum
}

// inOut completes steps whose sum belongs into Out.
func inOut(steps []Step, sum Buf) []Step {
	if sum == Out {
		return steps
	}
	return append(steps, Step{Op: Copy, Src: sum, Dst: Out, From: -1, To: -1})
}

// sendSum lets the sum go to a rank as soon as it is complete.
func sendSum(steps []Step, sum Buf, to int) []Step {
	if k := len(steps) - 1; k >= 0 && steps[k].Op == RecvReduce {
		steps[k] = Step{Op: RecvReduceSend, Src: steps[k].Src, From: steps[k].From, To: int32(to)}
		return steps
	}
	return append(steps, sendStep(sum, int32(to)))
}

// node returns the place of v in the tree in which the result of owner goes to
// everybody.
func (d *directHosts) node(v, owner int) treeNode {
	t := treeNode{rank: v, parent: int32(owner), apart: true}
	host := d.host[v]
	leader := owner
	if host != d.host[owner] {
		leader = d.adder(AllReduce, host, owner)
	}
	if v != leader {
		t.parent = int32(leader)
		return t
	}
	ranks := d.hosts[host]
	for i := 1; i < len(ranks); i++ { // those behind it first
		t.children = append(t.children, ranks[(d.place[v]+i)%len(ranks)])
	}
	for i := 1; v == owner && i < len(d.hosts); i++ {
		t.children = append(t.children, d.adder(AllReduce, (host+i)%len(d.hosts), owner))
	}
	return t
}
