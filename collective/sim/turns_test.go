package sim

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// sharedGraph is a host of n ranks with links as between two processes.
func sharedGraph(n int) *topo.Graph {
	g := topo.UniformGraph(n)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond, g.Links[i].LatencyUs = 8, 0.1
	}
	return g
}

func mustDirect(t testing.TB, kind plan.Kind, n, root int, form plan.Form) *plan.Plan {
	t.Helper()
	p, err := plan.Direct(kind, n, root, form)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustFlat(t testing.TB, n int) *plan.Plan {
	t.Helper()
	p, err := plan.Leaders(plan.AllReduce, plan.Alone(n), plan.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Sends of the same bytes to several ranks of a host are one write; each rank
// then reads for itself. Over links between hosts every one is a write.
func TestOneWriteForManyReaders(t *testing.T) {
	const n, size = 5, 1 << 20
	m := Machine{StepUs: 1, AgainUs: 0.25, Cores: 8, Inline: true, InPlace: true}
	g := topo.UniformGraph(n)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = 10
	}
	const once = size / 10e3 // us
	p := mustDirect(t, plan.Broadcast, n, 2, plan.Single)
	if got, want := price(t, p, g, size, m).Us, 1+once+(n-2)*0.25+1+once; !near(got, want) {
		t.Errorf("a write and %d reads at once take %v us, want %v", n-1, got, want)
	}
	if got := price(t, p, g, size, m); got.Loads[0].Bytes != size || len(got.Loads) != 1 {
		t.Errorf("the links carry %v, want %d bytes over one", got.Loads, size)
	}
	m.InPlace = false
	if got, want := price(t, p, g, size, m).Us, (n-1)*(1+once)+1; !near(got, want) {
		t.Errorf("%d writes take %v us, want %v", n-1, got, want)
	}
	m.InPlace = true
	g.Hosts = []int{0, 1, 2, 3, 4}
	if got, want := price(t, p, g, size, m).Us, (n-1)*(1+once)+1; !near(got, want) {
		t.Errorf("%d writes to other hosts take %v us, want %v", n-1, got, want)
	}
	// In an AllToAll every rank gets bytes of its own: from each n-1 writes of a part, and its own reading.
	g.Hosts = nil
	all := mustDirect(t, plan.AllToAll, n, -1, plan.Single)
	r := price(t, all, g, n*size, m)
	if len(r.Loads) != n*(n-1) || r.Loads[0].Bytes != size || r.Us < 2*(n-1)*once {
		t.Errorf("an alltoall takes %v us and %d links with %d bytes", r.Us, len(r.Loads), r.Loads[0].Bytes)
	}
}

// Inputs that are added one after the other are one pass over the sum.
func TestSumsInOnePass(t *testing.T) {
	const n, size = 4, 1 << 20
	m := Machine{StepUs: 1, Cores: 8, Inline: true, InPlace: true}
	g := topo.UniformGraph(n)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = 10
	}
	const once = size / 10e3 // us
	p := mustTrees(t, plan.Reduce, plan.Single, topo.Tree{Root: 0, Parent: []int{-1, 0, 0, 0}})
	if got, want := price(t, p, g, size, m).Us, 1+once+1+3*once; !near(got, want) {
		t.Errorf("three inputs read for one sum take %v us, want %v", got, want)
	}
	m.InPlace = false
	if got, want := price(t, p, g, size, m).Us, 1+once+3; !near(got, want) {
		t.Errorf("three steps take %v us, want %v", got, want)
	}
}

// A core goes round its ranks.
func TestReach(t *testing.T) {
	const us = 2.0
	for _, c := range []struct {
		ranks, at int
		since     float64
		turn      int
		now, want float64
	}{
		{4, 1, 10, 1, 10, 0},  // its own turn still
		{4, 1, 10, 2, 10, 2},  // the next
		{4, 1, 10, 0, 10, 6},  // the one before
		{4, 1, 10, 2, 11, 1},  // it is on its way there
		{4, 1, 10, 1, 11, 7},  // just gone: once round
		{4, 1, 10, 3, 14, 0},  // just there
		{4, 1, 10, 1, 26, 0},  // twice round
		{3, 2, 10, 1, 27, 5},  // at 26 it was there
		{2, 0, 0, 0, 1e9, 0},  // long idle
		{2, 0, 0, 1, 1e9, us}, // and the other one
	} {
		k := core{ranks: c.ranks, at: c.at, since: c.since}
		gone := k.turnsElapsed(c.now, us)
		turns := (c.turn - c.at - int(gone)%c.ranks + 2*c.ranks) % c.ranks
		if got := k.timeToTurn(gone, turns, c.now, us); !near(got, c.want) {
			t.Errorf("%+v: %v us, want %v", c, got, c.want)
		}
	}
}

// Eight ranks on two cores: two steps of each rank in a broadcast from a star,
// counted by hand.
func TestRanksTakeTurns(t *testing.T) {
	m := Machine{StepUs: 1, Cores: 2, SwitchUs: 10, Inline: true, InPlace: true}
	g := topo.UniformGraph(8)
	p := mustDirect(t, plan.Broadcast, 8, 0, plan.Single)
	// The root writes once and copies, 2 us. Then 2, 4 and 6 have their turns on
	// its core and receive: (10+1)*3. The other core's, 1, 3, 5 and 7, have their
	// windows after 1 us, when the core is on its way to 3: 1
	// comes last.
	if got, want := price(t, p, g, 0, m).Us, 10+1+(10+1)*3.0; !near(got, want) {
		t.Errorf("%v us, want %v", got, want)
	}
	m.Cores = 8
	if got := price(t, p, g, 0, m).Us; !near(got, 2) {
		t.Errorf("with a core for every rank %v us, want 2", got)
	}
}

// Where ranks outnumber the cores a flat exchange brings eight bytes round sooner
// than anything else: trees wait on every level, owners twice; with cores for all it does so too for a
// few ranks. From some size on its bytes cost more than the turns, and many lanes
// win in the end.
func TestFlatWinsForTinyMessages(t *testing.T) {
	for _, n := range []int{4, 8} {
		g := sharedGraph(n)
		trees := tree.All(g)
		flat := mustFlat(t, n)
		others := []*plan.Plan{mustTrees(t, plan.AllReduce, plan.Single, trees[0]),
			mustTrees(t, plan.AllReduce, plan.Split, trees...),
			mustDirect(t, plan.AllReduce, n, -1, plan.Single)}
		large := mustDirect(t, plan.AllReduce, n, -1, plan.Split)
		for _, cores := range []int{0, 2} {
			t.Run(fmt.Sprintf("%d ranks, %d cores", n, cores), func(t *testing.T) {
				m := Executor(8, 32<<10, cores)
				for _, p := range others {
					if f, o := price(t, flat, g, 8, m).Us, price(t, p, g, 8, m).Us; f >= o {
						t.Errorf("8 bytes take %v us flat, %v with %s", f, o, p.Name)
					}
				}
				if f, o := price(t, flat, g, 16<<20, m).Us, price(t, large, g, 16<<20, m).Us; f < 1.2*o {
					t.Errorf("16 MiB take %v us flat, %v with %s", f, o, large.Name)
				}
			})
		}
	}
}
