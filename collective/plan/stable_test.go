package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// reductions are the kinds that add something.
var reductions = []Kind{AllReduce, Barrier, Reduce, ReduceScatter}

// hostLayouts are ranks on hosts: one host, even ones, uneven ones, and ranks that
// are not numbered host by host.
func hostLayouts() [][][]int {
	list := [][][]int{
		{{0}}, {{0, 1}}, {{0, 1, 2}}, {ranks(8)}, {{2, 0, 3, 1}},
		{{0}, {1}}, {{0}, {1}, {2}}, {{0}, {1}, {2}, {3}, {4}},
		{{0, 1}, {2, 3}}, {{0, 1}, {2, 3}, {4, 5}}, {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}},
		{{0, 1, 2, 3}, {4}, {5, 6}}, {{0}, {1, 2, 3}, {4}, {5, 6, 7, 8}},
		spread(10, 3), spread(12, 4),
	}
	return list
}

// stablePlans returns all plans over hosts that promise one order of sums.
func stablePlans(t *testing.T, hosts [][]int) []*Plan {
	t.Helper()
	n := 0
	for _, ranks := range hosts {
		n += len(ranks)
	}
	var plans []*Plan
	keep := func(p *Plan, err error) {
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, p)
	}
	oneHost := len(hosts) == 1 && slices.IsSorted(hosts[0])
	for _, kind := range reductions {
		for _, form := range []Form{Single, Split} {
			for _, root := range slices.Compact([]int{0, n / 2, n - 1}) {
				keep(DirectHosts(kind, hosts, root, form))
				if kind != Reduce {
					break
				}
			}
		}
		for root := 0; root < n && oneHost && kind != ReduceScatter; root++ {
			keep(Star(kind, n, root))
		}
	}
	keep(Leaders(AllReduce, hosts, Everybody))
	if oneHost {
		keep(Leaders(AllReduce, Alone(n), Everybody))
	}
	return plans
}

// All plans that promise one order of sums are right and keep it, with few slots and with many; numbers whose sums
// depend on the order confirm it.
func TestStablePlans(t *testing.T) {
	for _, hosts := range hostLayouts() {
		for _, p := range stablePlans(t, hosts) {
			for _, slots := range []int{1, 2, 5} {
				if err := VerifyStable(p, hosts, slots); err != nil {
					t.Fatalf("%v, %d slots: %v\n%v", hosts, slots, err, p)
				}
			}
			for _, inPlace := range []bool{false, true} {
				if err := checkNumbers(p, inPlace); err != nil {
					t.Fatalf("%v, %s, in place %v: %v\n%v", hosts, p.Name, inPlace, err, p)
				}
				if err := checkBits(p, hosts, inPlace); err != nil {
					t.Fatalf("%v, %s, in place %v: %v\n%v", hosts, p.Name, inPlace, err, p)
				}
			}
		}
	}
}

// checkBits runs p on random floats and compares the results with sums that are
// made in the order of the hosts.
func checkBits(p *Plan, hosts [][]int, inPlace bool) error {
	rng := rand.New(rand.NewPCG(1, uint64(p.Size)))
	r := newNumbers(p, inPlace)
	want := make([]float32, len(r.in[0]))
	inputs := make([][]float32, p.Size)
	for v := range inputs {
		for i := range r.in[v] {
			r.in[v][i] = rng.Float32() * float32(int(1)<<rng.IntN(20))
		}
		inputs[v] = slices.Clone(r.in[v])
	}
	for i := range want {
		for h, ranks := range hosts {
			sum := inputs[ranks[0]][i]
			for _, v := range ranks[1:] {
				sum += inputs[v][i]
			}
			if h == 0 {
				want[i] = sum
			} else {
				want[i] += sum
			}
		}
	}
	if err := r.run(); err != nil {
		return err
	}
	for v, out := range r.out {
		for i, got := range out {
			at := i
			if p.Kind == ReduceScatter {
				at += v * r.count
			}
			if (p.Kind != Reduce || v == p.Root) && got != want[at] {
				return fmt.Errorf("element %d of rank %d is %v, want %v", i, v, got, want[at])
			}
		}
	}
	return nil
}

// Every rank does as much as any other of a direct plan over even hosts, and a
// byte crosses between hosts once for its reduction and once for its result.
func TestDirectHostsIsEven(t *testing.T) {
	hosts := [][]int{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}
	for _, c := range []struct {
		kind    Kind
		in, out float64 // of the message, into and out of every host
	}{{AllReduce, 1.5, 1.5}, {ReduceScatter, 0.75, 0.75}} {
		p, err := DirectHosts(c.kind, hosts, 0, Split)
		if err != nil {
			t.Fatal(err)
		}
		in, out := make([]float64, len(hosts)), make([]float64, len(hosts))
		for _, k := range p.Links() {
			if a, b := k.Src/3, k.Dst/3; a != b {
				out[a] += 1.0 / 12
				in[b] += 1.0 / 12
			}
		}
		for h := range hosts {
			if d := in[h] - c.in; d > 1e-9 || d < -1e-9 {
				t.Errorf("%v: %v of the message into host %d, want %v", c.kind, in[h], h, c.in)
			}
			if d := out[h] - c.out; d > 1e-9 || d < -1e-9 {
				t.Errorf("%v: %v of the message out of host %d, want %v", c.kind, out[h], h, c.out)
			}
		}
	}
}

// VerifyStable refuses plans that add in another order, with the expression that
// they made.
func TestVerifyStableRefuses(t *testing.T) {
	two := [][]int{{0, 1}, {2, 3}}
	one := [][]int{ranks(4)}
	build := func(p *Plan, err error) *Plan {
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	chain := topo.Tree{Root: 3, Parent: []int{1, 2, 3, -1}}
	for _, c := range []struct {
		name  string
		plan  *Plan
		hosts [][]int
		want  string
	}{
		{"direct", build(Direct(AllReduce, 4, -1, Single)), one,
			`another order, lane 1, rank 1 (track 1, step 2): "out = out + from 0" makes the result of rank ` +
				`0, which is x0 + (x1 + x2 + x3): want x0 + x1 + x2 + x3`},
		{"direct reduce", build(Direct(Reduce, 4, 0, Single)), one, "makes the result of rank 0, which is"},
		{"ring", build(FromRings(AllReduce, [][]int{ranks(4)}, nil, 0)), one, "want x0 + x1 + x2 + x3"},
		{"leaders that double", build(Leaders(AllReduce, [][]int{{0}, {1}, {2}, {3}}, Doubling)), one,
			"is x0 + x1 + (x2 + x3): want"},
		{"leaders over hosts as of one", build(Leaders(AllReduce, two, Everybody)), one, "is x0 + x1 + (x2 + x3): want"},
		{"one host as of two", build(Leaders(AllReduce, Alone(4), Everybody)), two,
			"is x0 + x1 + x2 + x3: want x0 + x1 + (x2 + x3)"},
		{"a chain from its last rank", build(FromTrees(AllReduce, []topo.Tree{chain}, nil, Single)), one, ""},
		{"a broadcast", build(Direct(Broadcast, 4, 1, Single)), one, ""},
		{"a wrong plan", &Plan{Name: "x", Kind: AllReduce, Size: 1, Root: -1, Lanes: lanes(track(0, cp(Tmp, In)))},
			[][]int{{0}}, "dead store"},
		{"other ranks", build(Leaders(AllReduce, Alone(3), Everybody)), one, "the hosts: 4 ranks, want 3"},
		{"an empty host", build(Leaders(AllReduce, Alone(3), Everybody)), [][]int{{0, 1, 2}, {}}, "host 1 has no rank"},
	} {
		err := VerifyStable(c.plan, c.hosts, 2)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A plan whose ranks add in another order than it promises does not pass. Each
// mutant exchanges two of the additions of one rank, which Verify does not mind.
func TestVerifyStableRejectsEveryMutant(t *testing.T) {
	adds := func(s Step) bool { return s.Op.Reduces() && s.Dst != None }
	mutants := 0
	for _, hosts := range hostLayouts() {
		for _, p := range stablePlans(t, hosts) {
			for l := range p.Lanes {
				for i := range p.Lanes[l].Tracks {
					steps := p.Lanes[l].Tracks[i].Steps
					for k := 1; k < len(steps); k++ {
						a, b := steps[k-1], steps[k]
						if !adds(a) || !adds(b) || a.From < 0 || b.From < 0 || k == 1 && a.Src != In {
							continue
						}
						m := slices.Clone(steps)
						m[k-1].From, m[k].From = b.From, a.From
						p.Lanes[l].Tracks[i].Steps = m
						if err := Verify(p, 2); err != nil {
							t.Fatalf("%v\n%v", err, p)
						}
						var verify *VerifyError
						if err := VerifyStable(p, hosts, 2); !errors.As(err, &verify) || verify.Reason != Unstable {
							t.Fatalf("%v: VerifyStable says %v of\n%v", hosts, err, p)
						}
						p.Lanes[l].Tracks[i].Steps = steps
						mutants++
					}
				}
			}
		}
	}
	t.Logf("%d mutants", mutants)
	if mutants < 500 {
		t.Errorf("%d mutants: the test has lost its subject", mutants)
	}
}

// DirectHosts refuses invalid arguments.
func TestDirectHostsRefuses(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		hosts [][]int
		root  int
		want  string
	}{
		{Broadcast, [][]int{{0, 1}}, 0, "it has no broadcast"},
		{AllReduce, nil, -1, "0 ranks"},
		{AllReduce, [][]int{{0, 1}, {}}, -1, "host 1 has no rank"},
		{AllReduce, [][]int{{0, 1}, {1}}, -1, "rank 1 is given twice"},
		{Reduce, [][]int{{0, 1}}, 2, "root 2 is not a rank of 0..1"},
	} {
		if _, err := DirectHosts(c.kind, c.hosts, c.root, Single); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v over %v: %v, want %q", c.kind, c.hosts, err, c.want)
		}
	}
}

// Plans over any trees add in one order, over one host always, and over several unless the error is that the inputs of
// a host arrive in pieces.
func TestOrdered(t *testing.T) {
	built := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		hosts := [][]int{ranks(n)}
		if cut := rapid.IntRange(0, n-1).Draw(t, "cut"); cut > 0 {
			hosts = [][]int{ranks(n)[cut:], ranks(cut)}
		}
		kind := rapid.SampledFrom([]Kind{AllReduce, Barrier, Reduce, ReduceScatter}).Draw(t, "kind")
		var trees []topo.Tree
		for r := range n {
			tree := drawTree(t, n, "tree")
			switch {
			case kind == ReduceScatter:
				tree = tree.Reroot(r)
			case kind == Reduce:
				tree = tree.Reroot(n / 2)
			}
			trees = append(trees, tree)
		}
		p, err := Ordered(kind, trees, nil, hosts, rapid.SampledFrom([]Form{Single, Split}).Draw(t, "form"))
		if err != nil {
			if len(hosts) == 1 || !strings.Contains(err.Error(), "of a host") && !strings.Contains(err.Error(), "of its host") {
				t.Fatal(err)
			}
			return
		}
		built++
		if err := VerifyStable(p, hosts, rapid.IntRange(1, 4).Draw(t, "slots")); err != nil {
			t.Fatalf("%v\n%v", err, p)
		}
		for _, inPlace := range []bool{false, true} {
			if err := checkBits(p, hosts, inPlace); err != nil {
				t.Fatalf("%v, in place %v\n%v", err, inPlace, p)
			}
		}
	})
	if built < 20 {
		t.Errorf("%d plans: the test has lost its subject", built)
	}
}
