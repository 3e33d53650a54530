package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Ordered builds a reduction over trees, one lane each with its share, such that every
// element is added in one order, whatever its lane: the ranks of a host in their order,
// then the hosts in theirs. VerifyStable proves it. kind is AllReduce, Barrier, Reduce or
// ReduceScatter, where every tree carries a share of the part of its root. A rank that
// has what the order does not let it add passes values on one by one. In the form Split
// the sum is made where that happens least often, and goes from there to the root, or to
// all; in Single the root makes it if it can.
//
// The error says so where no rank can make the sum of a tree: the inputs of a host come
// to it in pieces, and there is no place for their sum.
func Ordered(kind Kind, trees []topo.Tree, weights []float64, hosts [][]int, form Form) (*Plan, error) {
	if err := checkTrees(trees); err != nil {
		return nil, err
	}
	p := newPlan(fmt.Sprintf("trees(%d) stable", len(trees)), kind, len(trees[0].Parent), trees[0].Root)
	if err := cmp.Or(p.checkOrdered(hosts), p.checkLanes(len(trees), weights)); err != nil {
		return nil, err
	}
	for i, t := range trees {
		if kind == Reduce && t.Root != p.Root {
			return nil, fmt.Errorf("plan %s: tree %d has root %d, want %d", p.Name, i, t.Root, p.Root)
		}
		tracks, err := orderedTracks(kind, t, hosts, form)
		if err != nil {
			return nil, fmt.Errorf("plan %s: tree %d: %w", p.Name, i, err)
		}
		part := 0
		if kind == ReduceScatter {
			part = t.Root
		}
		p.Lanes = append(p.Lanes, newLane(part, weights, i, tracks))
	}
	slices.SortStableFunc(p.Lanes, func(a, b Lane) int { return a.Part - b.Part })
	return p.validated()
}

// orderedTracks returns the tracks of a lane over t in which the sum is made at the rank
// where the fewest values travel, or at the root.
func orderedTracks(kind Kind, t topo.Tree, hosts [][]int, form Form) (best []Track, err error) {
	least := 0
	for d := 0; d < len(t.Parent) && (best == nil || form == Split); d++ {
		top := (t.Root + d) % len(t.Parent)
		s := &sums{kind: kind, tree: t.Reroot(top), hosts: hosts, form: form, adder: top}
		if !kind.bothWays() {
			for v := top; v != t.Root; v = t.Parent[v] {
				s.path = append(s.path, t.Parent[v])
			}
		}
		tracks, failed := s.tracks()
		if failed != nil {
			err = failed
		} else if n := s.values(); best == nil || n < least {
			best, least = tracks, n
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}

// checkOrdered checks that p adds something, over hosts that have all its ranks.
func (p *Plan) checkOrdered(hosts [][]int) error {
	if err := checkHosts(hosts, p.Size); err != nil {
		return fmt.Errorf("plan %s: %w", p.Name, err)
	}
	if !p.Kind.bothWays() && p.Kind != Reduce && p.Kind != ReduceScatter {
		return fmt.Errorf("plan %s: %v: it adds nothing", p.Name, p.Kind)
	}
	return p.validateHead()
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

// sums is a lane that adds in the order of hosts on the way up a tree. Every rank
// handles values in one order, that of their places, so that none waits in a circle.
//
// The root makes two sums, that of its host and that of all hosts, in one pass where
// its host is one of the first two: a sum of two does not mind which stands first. A
// rank that has no Out has no place for a second one: there a child, adder, adds the
// inputs of the host, that of the root too.
type sums struct {
	kind  Kind
	tree  topo.Tree
	hosts [][]int
	form  Form
	adder int   // of the root's input: the root, or a child of it
	path  []int // whom the root sends the result of a Reduce, who pass it on to the last; nil: it keeps it

	at       int // the root's host
	place    []int
	begin    []int // by place: the first place of its host
	children [][]int
	groups   [][][]run // by rank: what it makes one value of each
}

// run is a sum of inputs that from sends: those of the places lo to hi.
type run struct{ from, lo, hi int }

func (s *sums) tracks() (tracks []Track, err error) {
	n, top := len(s.tree.Parent), s.tree.Root
	if n == 1 {
		return []Track{{Rank: 0, Steps: []Step{copyStep()}}}, nil
	}
	if len(s.hosts) == n { // which is the same as one host
		s.hosts = [][]int{slices.Concat(s.hosts...)}
	}
	s.at = slices.IndexFunc(s.hosts, func(ranks []int) bool { return slices.Contains(ranks, top) })
	s.children = s.tree.Children()
	s.layOut()
	s.collect(top)
	for v := range n {
		var give, take []Step
		if v != top {
			for _, group := range s.groups[v] {
				steps, sum := addSteps(v, froms(group), In, Tmp)
				give = append(give, sendSum(steps, sum, s.tree.Parent[v])...)
			}
		}
		hop := slices.Index(s.path, v)
		switch {
		case v == top:
			if give, take, err = s.rootSteps(); err != nil {
				return nil, err
			}
		case s.kind.bothWays():
			take = append([]Step{recvStep(Out, int32(s.tree.Parent[v]))}, serve(Out, s.children[v])...)
		case hop >= 0:
			from := append([]int{top}, s.path...)[hop]
			take = []Step{recvStep(Out, int32(from))}
			if hop < len(s.path)-1 {
				take = []Step{recvStep(Tmp, int32(from)), sendStep(Tmp, int32(s.path[hop+1]))}
			}
		}
		tracks = appendTracks(tracks, v, s.form, give, take)
	}
	return tracks, nil
}

// values is how many values ranks send to others for a chunk, but for the results of an
// AllReduce.
func (s *sums) values() int {
	n := len(s.path)
	for v, groups := range s.groups {
		if v != s.tree.Root {
			n += len(groups)
		}
	}
	return n
}

// layOut gives every rank its place: the root's host comes first where the root adds
// its input itself, so that the input is gone when, in place, results come.
func (s *sums) layOut() {
	n := len(s.tree.Parent)
	order := slices.Clone(s.hosts)
	if s.adder == s.tree.Root {
		order = slices.Insert(slices.Delete(order, s.at, s.at+1), 0, s.hosts[s.at])
	}
	s.place, s.groups = make([]int, n), make([][][]run, n)
	for _, ranks := range order {
		first := len(s.begin)
		for i, r := range ranks {
			s.place[r], s.begin = first+i, append(s.begin, first)
		}
	}
}

// collect finds what every rank below v, and v itself, makes of what it has and gets: a
// value grows as long as what comes next is one input more of its host.
func (s *sums) collect(v int) {
	var list []run
	own := func(r int) { list = append(list, run{r, s.place[r], s.place[r] + 1}) }
	if v != s.tree.Root {
		own(v)
	}
	if v == s.adder {
		own(s.tree.Root)
	}
	for _, c := range s.children[v] {
		s.collect(c)
		for _, group := range s.groups[c] {
			list = append(list, run{c, group[0].lo, group[len(group)-1].hi})
		}
	}
	slices.SortFunc(list, func(a, b run) int { return a.lo - b.lo })
	for _, r := range list {
		k := len(s.groups[v]) - 1
		if k >= 0 && r.hi == r.lo+1 {
			group := s.groups[v][k]
			if lo := group[0].lo; lo == s.begin[lo] && lo == s.begin[r.lo] && group[len(group)-1].hi == r.lo {
				s.groups[v][k] = append(group, r)
				continue
			}
		}
		s.groups[v] = append(s.groups[v], []run{r})
	}
}

// rootSteps returns the steps in which the root gives its input away, if it does, and
// makes the whole sum.
func (s *sums) rootSteps() (give, take []Step, err error) {
	top := s.tree.Root
	acc := Out
	if len(s.path) > 0 {
		acc = Tmp
	}
	var own, terms []int // of its host, and of the others
	for _, group := range s.groups[top] {
		switch from := froms(group); {
		case s.begin[group[0].lo] == s.begin[s.place[top]]:
			own = from
		case len(from) > 1:
			return nil, nil, fmt.Errorf("the inputs of a host reach rank %d in %d pieces", top, len(from))
		default:
			terms = append(terms, from[0])
		}
	}
	var sum Buf
	switch {
	case len(own) == 1:
		take, sum = addSteps(top, slices.Insert(terms, s.at, own[0]), In, acc)
	case s.at <= 1: // the sum of its host, and then the others
		take, sum = addSteps(top, append(own, terms...), In, acc)
	case acc == Tmp:
		return nil, nil, fmt.Errorf("rank %d has no place for the sum of its host and that of the others", top)
	default:
		take, _ = addSteps(top, own, In, Tmp)
		var more []Step
		more, sum = addSteps(top, slices.Insert(terms, s.at, top), Tmp, acc)
		take = append(take, more...)
	}
	if s.adder != top {
		give = []Step{sendStep(In, int32(s.adder))}
	}
	if len(s.path) > 0 {
		return give, sendSum(take, sum, s.path[0]), nil
	}
	take = inOut(take, sum)
	if s.kind.bothWays() {
		take = append(take, serve(Out, s.children[top])...)
	}
	return give, take, nil
}

// froms returns who sends what belongs into one sum.
func froms(group []run) (list []int) {
	for _, r := range group {
		list = append(list, r.from)
	}
	return list
}

// addSteps returns the steps in which rank v adds what the ranks of terms send, in
// their order, and says where the sum is then. If v is one of them, its term is what it
// has in the buffer mine. The sum grows in acc, but in Tmp as long as v has its input to
// add: in place, acc may be there.
func addSteps(v int, terms []int, mine, acc Buf) (steps []Step, sum Buf) {
	own := slices.Index(terms, v)
	if own == 1 { // a sum of two does not mind which stands first
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
