package sim

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// drawGraph draws a connected graph: a tree and some more links, perhaps with
// ports and hosts.
func drawGraph(t *rapid.T, n int) *topo.Graph {
	g := &topo.Graph{Name: "drawn", Ranks: n}
	seen := make(map[[2]int]bool)
	join := func(a, b int) {
		if key := [2]int{min(a, b), max(a, b)}; a != b && !seen[key] {
			seen[key] = true
			g.Links = append(g.Links, topo.Link{A: a, B: b,
				GBytesPerSecond: float64(rapid.IntRange(1, 20).Draw(t, "rate")),
				LatencyUs:       float64(rapid.IntRange(0, 5).Draw(t, "latency"))})
		}
	}
	for v := 1; v < n; v++ {
		join(v, rapid.IntRange(0, v-1).Draw(t, "to"))
	}
	for range rapid.IntRange(0, 2*n).Draw(t, "more") {
		join(rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b"))
	}
	if n > 1 {
		for i := range rapid.IntRange(0, 2).Draw(t, "ports") {
			inside := rapid.IntRange(1, n-1).Draw(t, "inside")
			g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprint("port ", i), Ranks: sequence(n)[:inside],
				GBytesPerSecond: float64(rapid.IntRange(1, 20).Draw(t, "rate"))})
		}
	}
	for r := range n {
		g.Hosts = append(g.Hosts, r/3)
	}
	return g
}

// drawTree draws a spanning tree of g.
func drawTree(t *rapid.T, g *topo.Graph) topo.Tree {
	tree := topo.Tree{Root: rapid.IntRange(0, g.Ranks-1).Draw(t, "root"), Parent: make([]int, g.Ranks)}
	in := make([]bool, g.Ranks)
	in[tree.Root] = true
	tree.Parent[tree.Root] = -1
	for range g.Ranks - 1 {
		var out [][2]int
		for _, l := range g.Links {
			if in[l.A] != in[l.B] {
				if in[l.B] {
					l.A, l.B = l.B, l.A
				}
				out = append(out, [2]int{l.A, l.B})
			}
		}
		e := rapid.SampledFrom(out).Draw(t, "edge")
		tree.Parent[e[1]] = e[0]
		in[e[1]] = true
	}
	return tree
}

// drawMachine draws constants; plain ones have nothing that several lanes or
// tracks could wait for but links and ports.
func drawMachine(t *rapid.T, plain bool) Machine {
	m := Machine{
		Slots: rapid.IntRange(0, 8).Draw(t, "slots"), SlotBytes: 64 * rapid.IntRange(0, 1024).Draw(t, "slot"),
		MinChunk:  rapid.SampledFrom([]int{1 << 10, 8 << 10}).Draw(t, "chunk"),
		StepUs:    float64(rapid.IntRange(0, 2).Draw(t, "step")),
		ReduceGBs: float64(rapid.IntRange(0, 20).Draw(t, "reduce")), CopyGBs: float64(rapid.IntRange(0, 20).Draw(t, "copy")),
		LaunchUs: float64(rapid.IntRange(0, 9).Draw(t, "launch")),
	}
	if !plain {
		m.Cores = rapid.SampledFrom([]int{0, 1, 2, topo.MaxRanks}).Draw(t, "cores")
		m.SwitchUs = float64(rapid.IntRange(0, 2).Draw(t, "switch"))
		m.InPlace = rapid.Bool().Draw(t, "in place")
		m.Inline = rapid.Bool().Draw(t, "inline")
	}
	return m
}

// packingBound is the rate that no AllReduce exceeds: the least, over all partitions of the ranks, of the rate across
// it over the number of parts less one. It tries them all. Ports only lower the rate: a partition in two, with the
// port's ranks on one side, is limited by it as well.
func packingBound(g *topo.Graph) float64 {
	best := math.Inf(1)
	part := make([]int, g.Ranks)
	var try func(r, parts int)
	try = func(r, parts int) {
		if r < g.Ranks {
			for p := range parts + 1 {
				part[r] = p
				try(r+1, max(parts, p+1))
			}
			return
		}
		if parts < 2 {
			return
		}
		cut := 0.0
		for _, l := range g.Links {
			if part[l.A] != part[l.B] {
				cut += l.GBytesPerSecond
			}
		}
		best = min(best, cut/float64(parts-1))
	}
	try(0, 0)
	for _, p := range g.Ports {
		best = min(best, p.GBytesPerSecond)
	}
	return best
}

// farthest is the latency of the longest of all shortest ways.
func farthest(g *topo.Graph) float64 {
	n := g.Ranks
	d := make([]float64, n*n)
	for i := range d {
		if i%(n+1) != 0 {
			d[i] = math.Inf(1)
		}
	}
	for _, l := range g.Links {
		d[l.A*n+l.B] = min(d[l.A*n+l.B], l.LatencyUs)
		d[l.B*n+l.A] = d[l.A*n+l.B]
	}
	most := 0.0
	for k := range n {
		for i := range n {
			for j := range n {
				d[i*n+j] = min(d[i*n+j], d[i*n+k]+d[k*n+j])
			}
		}
	}
	for _, v := range d {
		most = max(most, v)
	}
	return most
}

// No AllReduce is priced below the bound of the graph: the bytes over the rate that trees can be packed with, and the
// way between the farthest ranks.
func TestPriceIsNeverBelowTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, rapid.IntRange(2, 6).Draw(t, "n"))
		trees := []topo.Tree{drawTree(t, g)}
		for range rapid.IntRange(0, 3).Draw(t, "more trees") {
			trees = append(trees, drawTree(t, g))
		}
		form := rapid.SampledFrom([]plan.Form{plan.Single, plan.Split}).Draw(t, "form")
		p, err := plan.FromTrees(plan.AllReduce, trees, nil, form)
		if err != nil {
			t.Fatal(err)
		}
		m := drawMachine(t, false)
		bytes := int64(rapid.IntRange(0, 1<<20).Draw(t, "bytes"))
		r, err := Price(p, g, bytes, m)
		if err != nil {
			t.Fatal(err)
		}
		if least := float64(bytes) / packingBound(g) / 1e3; r.Us < least*(1-1e-9) {
			t.Fatalf("%v us for %d bytes, but the bound is %v", r.Us, bytes, least)
		}
		if least := farthest(g) + m.LaunchUs; r.Us < least*(1-1e-9) {
			t.Fatalf("%v us, but the farthest ranks are %v apart", r.Us, least)
		}
		again, err := Price(p, g, bytes, m)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("the same price twice: %v and %v, %v", r, again, err)
		}
	})
}

// A bigger message is never cheaper where a plan has one lane and nothing but links to wait for: up to the rounding of
// chunks to 64 bytes, which can make the last of four chunks 192 bytes smaller when a byte is added. Where lanes or
// tracks meet at a link, a port or a core, the order of arrival changes with the size, and first come first served has
// its anomalies (Graham, 1969): a size can be dearer than one a little bigger. There it holds from one size to four
// times that.
func TestPriceGrowsWithTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, rapid.IntRange(2, 8).Draw(t, "n"))
		alone := rapid.Bool().Draw(t, "alone")
		trees := []topo.Tree{drawTree(t, g)}
		if alone {
			g.Ports = nil
		} else {
			for range rapid.IntRange(0, 3).Draw(t, "more trees") {
				trees = append(trees, drawTree(t, g))
			}
		}
		kind := rapid.SampledFrom([]plan.Kind{plan.AllReduce, plan.Broadcast, plan.Reduce}).Draw(t, "kind")
		if kind != plan.AllReduce {
			trees = trees[:1]
		}
		p, err := plan.FromTrees(kind, trees, nil, plan.Single)
		if err != nil {
			t.Fatal(err)
		}
		m := drawMachine(t, alone)
		bytes := int64(rapid.IntRange(0, 1<<rapid.IntRange(0, 20).Draw(t, "bits")).Draw(t, "bytes"))
		more := bytes + int64(rapid.IntRange(0, 2000).Draw(t, "more"))
		if bytes > 0 && alone {
			more += 4 * 3 * 64
		}
		if !alone {
			bytes += 64 << 8
			more = 4 * bytes
		}
		a, err := Price(p, g, bytes, m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Price(p, g, more, m)
		if err != nil {
			t.Fatal(err)
		}
		if b.Us < a.Us*(1-1e-9) {
			t.Fatalf("%d bytes take %v us, %d take %v\n%v", bytes, a.Us, more, b.Us, m)
		}
	})
}

// Operations that follow one another take as long as each by itself, those that
// run at the same time no longer than that and no less than one.
func TestRunSeveral(t *testing.T) {
	g := topo.UniformGraph(8)
	for i := range g.Links {
		g.Links[i].LatencyUs = 2
	}
	p := mustTrees(t, plan.AllReduce, plan.Single, chainTree(8))
	m := Machine{SlotBytes: 4 << 10, LaunchUs: 5}
	one := price(t, p, g, 1000, m).Us
	ops := make([]Operation, 10)
	for i := range ops {
		ops[i] = Operation{Plan: p, Bytes: 1000}
	}
	m.InFlight = 1
	serial, err := Run(ops, g, m)
	if err != nil {
		t.Fatal(err)
	}
	m.InFlight = 0
	overlapped, err := Run(ops, g, m)
	if err != nil {
		t.Fatal(err)
	}
	// A rank continues with the next when it is done, so that the ways down and up of two operations overlap at the far
	// end, but no rank does two at once.
	if serial.Us <= 0.5*10*one || serial.Us > 10*one {
		t.Errorf("10 one by one take %v us, one takes %v", serial.Us, one)
	}
	if overlapped.Us < one || overlapped.Us > serial.Us/2 {
		t.Errorf("10 at once take %v us, one %v, one by one %v", overlapped.Us, one, serial.Us)
	}
	for i := range ops {
		ops[i].AtUs = float64(i) * 1000
	}
	if late, err := Run(ops, g, m); err != nil || !near(late.Us, 9000+one) {
		t.Errorf("10 issued 1000 us apart take %v us, %v, want %v", late.Us, err, 9000+one)
	}
	for i := range 9 {
		ops[i].AtUs = 0
	}
	ops[9].AtUs = 5000
	if late, err := Run(ops, g, m); err != nil || !near(late.Us, 5000+one) {
		t.Errorf("9 at once and one at 5000 us take %v us, %v, want %v", late.Us, err, 5000+one)
	}
}

// Eight ranks on two cores take the time of all their steps over two; on one
// each, the time of the busiest rank.
func TestCores(t *testing.T) {
	star := topo.Tree{Parent: []int{-1, 0, 0, 0, 0, 0, 0, 0}}
	g := topo.UniformGraph(8)
	p := mustTrees(t, plan.AllReduce, plan.Single, star)
	for _, c := range []struct {
		m    Machine
		want float64
	}{
		// Leaves send, the root takes seven, hands out seven (the last with its sum), leaves receive.
		{Machine{StepUs: 1}, 1 + 7 + 6 + 1},
		// Two cores: three rounds of sends while the root has one of them when its
		// turn comes, and so on: 7+7+6+7 steps, 2 at a time at best.
		{Machine{StepUs: 1, Cores: 1}, 7 + 7 + 6 + 7},
		{Machine{StepUs: 1, Cores: 8}, 1 + 7 + 6 + 1},
		{Machine{StepUs: 1, Cores: 8, SwitchUs: 10}, 1 + 7 + 6 + 1}, // no rank to yield to
	} {
		if got := price(t, p, g, 0, c.m).Us; !near(got, c.want) {
			t.Errorf("%+v: %v us, want %v", c.m, got, c.want)
		}
	}
	// Four lanes on one core of a rank take four times one.
	many := mustTrees(t, plan.AllReduce, plan.Single, star, star, star, star)
	alone, shared := price(t, many, g, 1<<10, Machine{StepUs: 1}), price(t, many, g, 1<<10, Machine{StepUs: 1, Cores: 8})
	if alone.Us > 16.5 || shared.Us < 4*13 {
		t.Errorf("four lanes take %v us, on one core %v", alone.Us, shared.Us)
	}
}

// A port is shared by all that crosses it, an adapter by one kind of links.
func TestPortsAndAdapters(t *testing.T) {
	const size = 1 << 20
	star := topo.Tree{Parent: []int{-1, 0, 0, 0, 0}}
	g := topo.UniformGraph(5)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = 10
		g.Links[i].Kind = PCIe
	}
	p := mustTrees(t, plan.Reduce, plan.Single, star)
	free := price(t, p, g, size, Machine{})
	if want := size / 10e3; !near(free.Us, want) {
		t.Errorf("%v us over four links, want %v", free.Us, want)
	}
	adapter := price(t, p, g, size, Paper{AdapterGBs: map[string]float64{PCIe: 10}})
	if want := 4 * size / 10e3; !near(adapter.Us, want) {
		t.Errorf("%v us through one adapter, want %v", adapter.Us, want)
	}
	other := price(t, p, g, size, Paper{AdapterGBs: map[string]float64{NVLink: 10}})
	if other.Us != free.Us {
		t.Errorf("%v us with an adapter for other links, want %v", other.Us, free.Us)
	}
	g.Ports = []topo.Port{{Name: "card", Ranks: []int{1, 2, 3}, GBytesPerSecond: 5}}
	port := price(t, p, g, size, Machine{})
	if want := 3 * size / 5e3; !near(port.Us, want) || port.Loads[0].Name != "out of card" ||
		port.Loads[0].Bytes != 3*size {
		t.Errorf("%v us through one port, want %v: %v", port.Us, want, port.Loads[0])
	}
	g.Links[1].PortCost = 2 // of one of the three
	if dear := price(t, p, g, size, Machine{}); !near(dear.Us, 4*size/5e3) {
		t.Errorf("%v us with a port cost, want %v", dear.Us, 4*size/5e3)
	}
	text := port.String()
	if !strings.Contains(text, "out of card") || !strings.Contains(text, "100 %") {
		t.Errorf("%s does not name the port", text)
	}
}

func TestPriceRefuses(t *testing.T) {
	chain := mustTrees(t, plan.AllReduce, plan.Single, chainTree(3))
	g := topo.UniformGraph(3)
	wrong := mustTrees(t, plan.AllReduce, plan.Single, chainTree(3))
	wrong.Lanes[0].Tracks[2].Steps = wrong.Lanes[0].Tracks[2].Steps[1:]
	for _, c := range []struct {
		name  string
		p     *plan.Plan
		g     *topo.Graph
		bytes int64
		m     Machine
		want  string
	}{
		{"no link", chain, &topo.Graph{Ranks: 3,
			Links: []topo.Link{{A: 0, B: 1, GBytesPerSecond: 1}, {A: 0, B: 2, GBytesPerSecond: 1}}}, 0, Machine{},
			"no link between ranks"},
		{"a plan that gets stuck", wrong, g, 1, Machine{}, "never ends"},
	} {
		if _, err := Price(c.p, c.g, c.bytes, c.m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// With one slot every chunk but the last waits for the word that the one before was taken:
// four chunks take four ways there and three back.
func TestSlotsComeBackOverTheLink(t *testing.T) {
	const us = 10
	g := &topo.Graph{Ranks: 2, Links: []topo.Link{{A: 0, B: 1, GBytesPerSecond: 1e9, LatencyUs: us, Kind: "x"}}}
	p, err := plan.FromTrees(plan.Broadcast, []topo.Tree{topo.Star(2, 0)}, nil, plan.Single)
	if err != nil {
		t.Fatal(err)
	}
	for slots, want := range map[int]float64{1: 7 * us, 2: 3 * us, 4: us} {
		r, err := Price(p, g, 4*plan.Quantum, Machine{Slots: slots, SlotBytes: plan.Quantum, MinChunk: plan.Quantum})
		if err != nil || math.Abs(r.Us-want) > 0.01 {
			t.Errorf("%d slots: %v us, want %v, %v", slots, r.Us, want, err)
		}
	}
}

// The full event simulation of 1024 ranks, and of 24,576 in trees.
func BenchmarkPrice(b *testing.B) {
	for _, n := range []int{8, 64, 1024} {
		g := topo.UniformGraph(n)
		tree := topo.Tree{Parent: make([]int, n)}
		for v := range n {
			tree.Parent[v] = v & (v - 1)
		}
		tree.Parent[0] = -1
		ring, err := plan.FromRings(plan.AllReduce, [][]int{sequence(n)}, nil, 0)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range []*plan.Plan{mustTrees(b, plan.AllReduce, plan.Split, tree), ring} {
			b.Run(fmt.Sprintf("%s/%d", strings.Fields(p.Name)[0], n), func(b *testing.B) {
				for b.Loop() {
					price(b, p, g, 1<<20, Executor(8, 32<<10, 0))
				}
			})
		}
	}
}
