package plan

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// overTree is a lane that adds on the way up a tree and hands out on the way down one.
//
// Where hosts give the order, every rank handles values in the order of their places, so that no ranks wait in a
// circle. The root makes two sums, that of its host and that of all hosts, in one pass where its host is one of the
// first two: a sum of two does not depend on their order. A rank that has no Out has no place for a second one: there a
// child, adder, adds the inputs of the host, that of the root too.
type overTree struct {
	kind     Kind
	up, down topo.Tree // with the same root
	form     Form
	hosts    [][]int // nil: a rank adds its own input first, and then its children
	adder    int     // of the root's input: the root, or a child of it
	path     []int   // ranks to which the root sends the sum, and which pass it on to the last; nil: it keeps it

	at       int // the root's host
	place    []int
	begin    []int // by place: the first place of its host
	children [][]int
	groups   [][][]run // by rank: the groups of runs of which it makes one value each
}

// run is a sum of inputs that from sends: those of the places lo to hi.
type run struct{ from, lo, hi int }

// newOverTree returns a lane that goes up and down the same tree.
func newOverTree(kind Kind, t topo.Tree, form Form) *overTree {
	return &overTree{kind: kind, up: t, down: t, form: form, adder: t.Root}
}

// handsOut reports whether anything is done on the way down.
func (l *overTree) handsOut() bool { return l.kind.bothWays() || !l.kind.adds() }

// tracks returns the tracks by rank, the way up before the way down. The error is for
// trees that do not suit the order of hosts.
func (l *overTree) tracks() (tracks []Track, err error) {
	n, top := len(l.up.Parent), l.up.Root
	if n == 1 {
		return []Track{{Rank: 0, Steps: []Step{copyStep()}}}, nil
	}
	l.collectAll()
	below := l.down.Children()
	for v := range n {
		var give, take []Step
		hop := slices.Index(l.path, v)
		switch {
		case v == top && l.kind.adds():
			give, take, err = l.rootSteps(below[v])
		case v == top:
			take = append(serve(In, below[v]), copyStep())
		case l.handsOut():
			take = l.handOn(recvStep(Out, int32(l.down.Parent[v])), below[v])
		case hop >= 0:
			from := append([]int{top}, l.path...)[hop]
			take = []Step{recvStep(Out, int32(from))}
			if hop < len(l.path)-1 {
				take = []Step{recvStep(Tmp, int32(from)), sendStep(Tmp, int32(l.path[hop+1]))}
			}
		}
		if err != nil {
			return nil, err
		}
		for _, group := range l.groups[v] {
			if v != top {
				steps, sum := addSteps(v, froms(group), In, Tmp) // where it is part of one pass, and not stored
				give = append(give, sendSum(steps, sum, l.up.Parent[v])...)
			}
		}
		tracks = appendTracks(tracks, v, l.form, give, take)
	}
	return tracks, nil
}

// handOn sends the value that arrives by the step last, which stores it in Out, to children. Where hosts are given a
// rank then sends Out to all its children: if receivers read in place that is one write instead of two (see
// Kind.SendsAgain). Elsewhere the steps that receive and send in one are better.
func (l *overTree) handOn(last Step, children []int) []Step {
	if k := len(children) - 1; k >= 0 && l.hosts == nil {
		if last.Op == Recv {
			last.Op = RecvCopySend
		} else { // RecvReduce
			last.Op = RecvReduceCopySend
		}
		last.To, children = int32(children[k]), children[:k]
	}
	return append([]Step{last}, serve(Out, children)...)
}

// values is the number of values that ranks send to others for a chunk, without the results of an AllReduce.
func (l *overTree) values() int {
	n := len(l.path)
	for v, groups := range l.groups {
		if v != l.up.Root {
			n += len(groups)
		}
	}
	return n
}

// collectAll gives every rank its place, and finds the values that it makes of its input and the received ones. The
// root's host comes first where the root adds its input itself, so that the input is no longer needed when, in place,
// results come.
func (l *overTree) collectAll() {
	n := len(l.up.Parent)
	l.groups = make([][][]run, n)
	if !l.kind.adds() {
		return
	}
	l.children = l.up.Children()
	if l.hosts == nil {
		for v := range n {
			group := []run{{from: v}}
			for _, c := range l.children[v] {
				group = append(group, run{from: c})
			}
			l.groups[v] = [][]run{group}
		}
		l.place, l.begin = make([]int, n), []int{0}
		return
	}
	if len(l.hosts) == n { // which is the same as one host
		l.hosts = [][]int{slices.Concat(l.hosts...)}
	}
	l.at = slices.IndexFunc(l.hosts, func(ranks []int) bool { return slices.Contains(ranks, l.up.Root) })
	order := slices.Clone(l.hosts)
	if l.adder == l.up.Root {
		order = slices.Insert(slices.Delete(order, l.at, l.at+1), 0, l.hosts[l.at])
	}
	l.place = make([]int, n)
	for _, ranks := range order {
		first := len(l.begin)
		for i, r := range ranks {
			l.place[r], l.begin = first+i, append(l.begin, first)
		}
	}
	l.collect(l.up.Root)
}

// collect finds the values that every rank below v, and v itself, makes of its input and the received ones: a value
// grows as long as the next run is one more input of its host.
func (l *overTree) collect(v int) {
	var list []run
	own := func(r int) { list = append(list, run{r, l.place[r], l.place[r] + 1}) }
	if v != l.up.Root {
		own(v)
	}
	if v == l.adder {
		own(l.up.Root)
	}
	for _, c := range l.children[v] {
		l.collect(c)
		for _, group := range l.groups[c] {
			list = append(list, run{c, group[0].lo, group[len(group)-1].hi})
		}
	}
	slices.SortFunc(list, func(a, b run) int { return a.lo - b.lo })
	for _, r := range list {
		k := len(l.groups[v]) - 1
		if k >= 0 && r.hi == r.lo+1 {
			group := l.groups[v][k]
			if lo := group[0].lo; lo == l.begin[lo] && lo == l.begin[r.lo] && group[len(group)-1].hi == r.lo {
				l.groups[v][k] = append(group, r)
				continue
			}
		}
		l.groups[v] = append(l.groups[v], []run{r})
	}
}

// rootSteps returns the steps in which the root gives its input away, if it does, and
// makes the whole sum.
func (l *overTree) rootSteps(children []int) (give, take []Step, err error) {
	top := l.up.Root
	acc := Out
	if len(l.path) > 0 {
		acc = Tmp
	}
	var own, terms []int // of its host, and of the others
	for _, group := range l.groups[top] {
		switch from := froms(group); {
		case l.begin[group[0].lo] == l.begin[l.place[top]]:
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
		take, sum = addSteps(top, slices.Insert(terms, l.at, own[0]), In, acc)
	case l.at <= 1: // the sum of its host, and then the others
		take, sum = addSteps(top, append(own, terms...), In, acc)
	case acc == Tmp:
		return nil, nil, fmt.Errorf("rank %d has no place for the sum of its host and that of the others", top)
	default:
		take, _ = addSteps(top, own, In, Tmp)
		var more []Step
		more, sum = addSteps(top, slices.Insert(terms, l.at, top), Tmp, acc)
		take = append(take, more...)
	}
	if l.adder != top {
		give = []Step{sendStep(In, int32(l.adder))}
	}
	if len(l.path) > 0 {
		return give, sendSum(take, sum, l.path[0]), nil
	}
	take = inOut(take, sum)
	if l.handsOut() {
		k := len(take) - 1
		take = append(take[:k], l.handOn(take[k], children)...)
	}
	return give, take, nil
}

// froms returns the ranks that send the terms of one sum.
func froms(group []run) (list []int) {
	for _, r := range group {
		list = append(list, r.from)
	}
	return list
}

// addSteps returns the steps in which rank v adds the values that the ranks of terms send, in their order, and the
// buffer in which the sum is then. If v is one of them, its term is the value in its buffer mine. The sum grows in acc,
// but in Tmp as long as v has its input to add: in place, acc may be there.
func addSteps(v int, terms []int, mine, acc Buf) (steps []Step, sum Buf) {
	own := slices.Index(terms, v)
	if own == 1 { // a sum of two does not depend on their order
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

// serve sends src to children, the last of them first.
func serve(src Buf, children []int) (steps []Step) {
	for _, c := range slices.Backward(children) {
		steps = append(steps, sendStep(src, int32(c)))
	}
	return steps
}
