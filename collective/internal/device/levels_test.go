package device

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// randomTree returns a tree in which every rank but the root hangs from one that was there before it, under random
// numbers.
func randomTree(rng *rand.Rand, n int) topo.Tree {
	order := rng.Perm(n)
	t := topo.Tree{Root: order[0], Parent: slices.Repeat([]int{-1}, n)}
	for i, v := range order[1:] {
		t.Parent[v] = order[max(0, i-rng.IntN(3))]
	}
	return t
}

// randomPlans returns plans over random trees and rings of n ranks, those that keep the order of sums, and some made by
// hand.
func randomPlans(t *testing.T, rng *rand.Rand, n int) (all []*plan.Plan) {
	t.Helper()
	add := func(p *plan.Plan, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	var trees, parts []topo.Tree
	var rings [][]int
	for r := range n {
		trees, rings = append(trees, randomTree(rng, n)), append(rings, rng.Perm(n))
		parts = append(parts, randomTree(rng, n).Reroot(r))
	}
	rings = rings[:min(n, 3)]
	hosts := [][]int{rng.Perm(n)}
	if n > 3 {
		hosts = [][]int{hosts[0][:n/2], hosts[0][n/2:]}
	}
	for _, form := range []plan.Form{plan.Single, plan.Split} {
		add(plan.FromTrees(plan.AllReduce, trees, nil, form))
		if p, err := plan.Ordered(plan.AllReduce, trees[:1], nil, hosts, form); err == nil { // not over every tree
			all = append(all, p)
		}
	}
	for _, kind := range []plan.Kind{plan.AllGather, plan.ReduceScatter} {
		add(plan.FromPartTrees(kind, parts, nil))
	}
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.ReduceScatter} {
		add(plan.FromRings(kind, rings, nil, 0))
	}
	return append(all, passingPlan(rng, n, plan.Single), passingPlan(rng, n, plan.Split))
}

// passingPlan returns an AllReduce over random trees, as one made by hand may be: on the way up a rank receives the
// values of its children in any order, adds some of them, and its own input, and passes each sum on. So a link carries
// many values of a chunk.
func passingPlan(rng *rand.Rand, n int, form plan.Form) *plan.Plan {
	p := &plan.Plan{Name: fmt.Sprintf("passing %d", form), Kind: plan.AllReduce, Size: n, Root: -1}
	for range 1 + rng.IntN(3) {
		tree := randomTree(rng, n)
		lane := plan.Lane{Weight: 1}
		below := tree.Children()
		values := make([]int, n) // that a rank sends to its parent
		var visit func(v int)
		visit = func(v int) {
			terms := []int{v}
			for _, c := range below[v] {
				visit(c)
				terms = append(terms, slices.Repeat([]int{c}, values[c])...)
			}
			rng.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
			var up, down []plan.Step
			for len(terms) > 0 {
				k := len(terms)
				if v != tree.Root {
					k = 1 + rng.IntN(min(3, k))
				}
				up, terms = append(up, sumSteps(v, terms[:k], tree.Parent[v])...), terms[k:]
				values[v]++
			}
			if v != tree.Root {
				down = []plan.Step{{Op: plan.Recv, Dst: plan.Out, From: int32(tree.Parent[v]), To: -1}}
			}
			for _, c := range below[v] {
				down = append(down, plan.Step{Op: plan.Send, Src: plan.Out, From: -1, To: int32(c)})
			}
			if form == plan.Split && v != tree.Root {
				lane.Tracks = append(lane.Tracks, plan.Track{Rank: v, Steps: up}, plan.Track{Rank: v, Steps: down})
				return
			}
			lane.Tracks = append(lane.Tracks, plan.Track{Rank: v, Steps: append(up, down...)})
		}
		visit(tree.Root)
		p.Lanes = append(p.Lanes, lane)
	}
	return p
}

// sumSteps returns the steps in which rank v adds terms, its own input and values of others, and sends the sum to a
// rank, or stores it in Out if that is -1.
func sumSteps(v int, terms []int, to int) (steps []plan.Step) {
	sum := plan.In
	for i, r := range terms {
		s := plan.Step{Op: plan.RecvReduce, Src: sum, Dst: plan.Tmp, From: int32(r), To: -1}
		switch {
		case r == v && i == 0:
			continue
		case r == v:
			s.Op, s.Src, s.From = plan.LocalReduce, plan.In, -1
		case i == 0:
			s.Op, s.Src = plan.Recv, plan.None
		}
		steps, sum = append(steps, s), plan.Tmp
	}
	if to < 0 {
		return append(steps, plan.Step{Op: plan.Copy, Src: sum, Dst: plan.Out, From: -1, To: -1})
	}
	return append(steps, plan.Step{Op: plan.Send, Src: sum, From: -1, To: int32(to)})
}

// TestOrderRandom is TestOrder for random plans.
func TestOrderRandom(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		for _, p := range randomPlans(t, rng, 2+int(seed)%6) {
			tryOrder(t, p, orders[rng.IntN(len(orders))], seed)
		}
	}
}

// edges has the steps of all ranks of a plan, and for each those that must have a higher level: the next one of its
// track, those that receive what it sends, and those that fill the slots again that it reads.
type edges struct {
	steps  []*step
	ranks  []int
	after  map[*step][]*step
	before map[*step][]*step
}

// payload is the n-th payload in a link's slots.
type payload struct {
	link int
	n    uint32
}

func edgesOf(t *testing.T, p *plan.Plan, slots int) (layouts []*Layout, e edges) {
	t.Helper()
	e.after, e.before = map[*step][]*step{}, map[*step][]*step{}
	readers, fillers := map[payload][]*step{}, map[payload]*step{}
	edge := func(a, b *step) { e.after[a], e.before[b] = append(e.after[a], b), append(e.before[b], a) }
	for r := range p.Size {
		l, err := NewLayout(Shape{Plans: []*plan.Plan{p}, Slots: slots, SlotBytes: 4096,
			Location: func(src, dst int) Location { return Location((src + dst) % int(locations)) }}, r)
		if err != nil {
			t.Fatal(err)
		}
		layouts = append(layouts, l)
		latest := map[int]*step{}
		for _, b := range l.plans[0].batches {
			for i := range b.steps {
				st := &b.steps[i]
				e.steps, e.ranks = append(e.steps, st), append(e.ranks, r)
				if a := latest[st.track]; a != nil {
					if st.CopiesAfter(&a.Fused) {
						if e.steps = e.steps[:len(e.steps)-1]; st.level != a.level {
							t.Fatalf("%s: rank %d copies at level %d what it sends at level %d", p.Name, r, st.level, a.level)
						}
						e.ranks = e.ranks[:len(e.steps)]
						continue
					}
					edge(a, st)
					if a.Args[0].Step >= st.Args[0].Step {
						t.Fatalf("%s: rank %d: steps of track %d change places", p.Name, r, st.track)
					}
				}
				latest[st.track] = st
				for _, u := range st.ins {
					if u.link >= 0 {
						readers[payload{u.lender, u.lenderN}] = append(readers[payload{u.lender, u.lenderN}], st)
					}
				}
				for _, o := range st.outs {
					fillers[payload{o.lender, o.lenderN}] = st
				}
			}
		}
	}
	for at, st := range fillers {
		for _, r := range readers[at] {
			edge(st, r)
		}
		if n := int(at.n) - slots; n >= 0 {
			for _, r := range readers[payload{at.link, uint32(n)}] {
				edge(r, st)
			}
		}
	}
	return layouts, e
}

// TestLevels checks that every step has a level above those of the steps that it waits for, and that it has the highest
// of such levels if others wait for it, and else the lowest.
func TestLevels(t *testing.T) {
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 2 + int(seed)%7
		plans := randomPlans(t, rng, n)
		if seed < 7 {
			plans = append(plans, shapes(t, n)...)
		}
		for _, p := range plans {
			slots := 2 << rng.IntN(2)
			if err := plan.Verify(p, slots); err != nil {
				t.Fatalf("%v\n%v", err, p)
			}
			layouts, e := edgesOf(t, p, slots)
			lowest := map[*step]int{}
			var find func(st *step) int
			find = func(st *step) int {
				if lowest[st] == 0 {
					level := 1
					for _, a := range e.before[st] {
						level = max(level, 1+find(a))
					}
					lowest[st] = level
				}
				return lowest[st]
			}
			for i, st := range e.steps {
				want := find(st)
				for k, a := range e.after[st] {
					if k == 0 || a.level-1 < want {
						want = a.level - 1
					}
				}
				if st.level != want {
					t.Fatalf("seed %d, %d slots, %s: rank %d: %s has level %d, want %d", seed, slots, p.Name, e.ranks[i],
						describe([]*step{st}), st.level, want)
				}
			}
			for r, l := range layouts {
				checkBatches(t, p, l, fmt.Sprintf("seed %d, %d slots, %s: rank %d", seed, slots, p.Name, r))
			}
		}
	}
}

// checkBatches checks that batches have all steps of a level, all on the stream of their tracks, and that no step of
// one writes what another reads or writes, in place or not.
func checkBatches(t *testing.T, p *plan.Plan, l *Layout, what string) {
	t.Helper()
	streams := map[int]int{}
	level := 0
	for _, b := range l.plans[0].batches {
		if b.steps[0].level <= level {
			t.Fatalf("%s: a batch of level %d behind one of level %d", what, b.steps[0].level, level)
		}
		level = b.steps[0].level
		for i := range b.steps {
			st := &b.steps[i]
			if st.level != level {
				t.Fatalf("%s: a batch of levels %d and %d", what, level, st.level)
			}
			if with, ok := streams[st.track]; ok && with != b.stream {
				t.Fatalf("%s: track %d is on two streams", what, st.track)
			}
			streams[st.track] = b.stream
			for k := range i {
				reads, writes := touches(p, l, st)
				r, w := touches(p, l, &b.steps[k])
				in := func(list []any) func(any) bool { return func(m any) bool { return slices.Contains(list, m) } }
				if slices.ContainsFunc(writes, in(append(r, w...))) || slices.ContainsFunc(w, in(reads)) {
					t.Fatalf("%s: level %d: one writes what the other uses: %s", what, level,
						describe([]*step{st, &b.steps[k]}))
				}
			}
		}
	}
}

// touches names the memory that a step reads and writes: slots, and chunks of buffers, which have one name in In and
// Out where they are one in place.
func touches(p *plan.Plan, l *Layout, st *step) (reads, writes []any) {
	buffer := func(b plan.Buf, part int) any {
		switch {
		case b == plan.Tmp:
			return fmt.Sprint("tmp of track ", st.track)
		case b == plan.In && (p.Kind == plan.AllGather || p.Kind == plan.Gather),
			b == plan.Out && (p.Kind == plan.ReduceScatter || p.Kind == plan.Scatter):
			part = l.rank
		}
		return [2]int{st.lane, part}
	}
	slot := func(u use) any { return payload{u.lender, u.lenderN % uint32(l.Slots)} }
	for i, a := range st.Args {
		if a.Received() {
			reads = append(reads, slot(st.ins[i]))
		} else {
			reads = append(reads, buffer(a.Buf, a.Part))
		}
	}
	if st.Dst != plan.None && !(len(reads) == 1 && reads[0] == buffer(st.Dst, st.DstPart)) { // in place it is there
		writes = append(writes, buffer(st.Dst, st.DstPart))
	}
	for _, o := range st.outs {
		writes = append(writes, slot(o.use))
	}
	return reads, writes
}
