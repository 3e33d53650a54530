package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

func (w *world) infer(t rapid.TB, e Effort, noise float64, seed uint64) *Network {
	t.Helper()
	names := make([]string, w.hosts)
	for i := range names {
		names[i] = fmt.Sprintf("h%d", i)
	}
	n, err := Infer(names, w.find(e, noise, seed))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// near checks that a value is within a part of the wanted one.
func near(t rapid.TB, what string, got, want, within float64) {
	t.Helper()
	if !(ratio(got, want) <= 1+within) {
		t.Errorf("%s: %.4g, want %.4g", what, got, want)
	}
}

// An even switch gives an even network, with a port on every host.
func TestEvenSwitch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.IntRange(2, 12).Draw(rt, "hosts")
		rate := rapid.SampledFrom([]float64{0.0125, 0.0625, 1.25, 12.5}).Draw(rt, "rate")
		seed := rapid.Uint64().Draw(rt, "seed")
		effort := rapid.SampledFrom([]Effort{Quick, Full}).Draw(rt, "effort")
		n := both(slices.Repeat([]float64{rate}, hosts)...).infer(rt, effort, 0.05, seed)
		if !n.Graph.IsEven() {
			rt.Fatalf("%d hosts: not even", hosts)
		}
		near(rt, "rate", n.Graph.Links[0].GBytesPerSecond, rate, 0.07)
		if want := hosts; hosts > 2 && len(n.Graph.Ports) != want {
			rt.Fatalf("%d ports of %d hosts", len(n.Graph.Ports), hosts)
		}
	})
}

// Cards of different rates: every pair has the slower one, and every host a port
// that pairs could load more than it carries.
func TestUnevenCards(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.IntRange(3, 9).Draw(rt, "hosts")
		var rates []float64
		for range hosts {
			rates = append(rates, rapid.SampledFrom([]float64{0.1, 0.2, 0.4, 0.8}).Draw(rt, "rate"))
		}
		n := both(rates...).infer(rt, Quick, 0.05, rapid.Uint64().Draw(rt, "seed"))
		ports := make(map[int]float64)
		for _, p := range n.Graph.Ports {
			ports[p.Ranks[0]] = p.GBytesPerSecond
		}
		for _, p := range n.Graph.Links {
			near(rt, fmt.Sprintf("pair %d-%d of %v", p.A, p.B, rates), p.GBytesPerSecond, min(rates[p.A], rates[p.B]), 0.1)
		}
		for h, r := range rates {
			sum := 0.0
			for k, other := range rates {
				if k != h {
					sum += min(r, other)
				}
			}
			switch port, ok := ports[h]; {
			case ok:
				near(rt, fmt.Sprintf("port of host %d of %v", h, rates), port, min(r, sum), 0.15)
			case sum > 1.3*r:
				rt.Fatalf("host %d of %v has no port", h, rates)
			}
		}
	})
}

// On hosts that are too busy to measure well, most of all where the network is quicker than they are, some flows are
// lost: the others count, and an even network stays even, except for errors that no other measurement contradicts.
func TestDisturbed(t *testing.T) {
	even := 0
	for seed := range uint64(100) {
		f := both(5, 5, 5, 5).find(Quick, 0.05, seed)
		disturb(f, seed)
		n, err := Infer([]string{"a", "b", "c", "d"}, f)
		if err != nil {
			t.Fatal(err)
		}
		if n.Graph.IsEven() {
			even++
		}
		for _, p := range n.Graph.Links {
			if p.GBytesPerSecond < 1 || p.GBytesPerSecond > 5.5 {
				t.Errorf("seed %d: pair %+v", seed, p)
			}
		}
	}
	if even < 80 { // without the turns that would be taken again
		t.Errorf("%d of 100 networks are even", even)
	}
}

// A card that is slower in than out counts with the slower direction.
func TestOneWayCards(t *testing.T) {
	n := cards([2]float64{0.8, 0.2}, [2]float64{0.8, 0.8}, [2]float64{0.8, 0.8}, [2]float64{0.8, 0.8}).infer(t, Quick,
		0.02, 1)
	near(t, "pair 0-1", n.Graph.Links[0].GBytesPerSecond, 0.2, 0.05)
	near(t, "pair 1-2", n.Graph.Links[3].GBytesPerSecond, 0.8, 0.05)
	if len(n.Graph.Ports) != 4 {
		t.Fatalf("%+v", n.Graph.Ports)
	}
	near(t, "port", n.Graph.Ports[0].GBytesPerSecond, 0.2, 0.05)
	near(t, "port 1", n.Graph.Ports[1].GBytesPerSecond, 0.8, 0.05)
}

func matrix(n int, of func(a, b int) float64) [][]float64 {
	m := make([][]float64, n)
	for a := range m {
		m[a] = make([]float64, n)
		for b := range m {
			if a != b {
				m[a][b] = of(min(a, b), max(a, b))
			}
		}
	}
	return m
}

// mesh4 are six links of 100 to 800 Mbit/s.
var mesh4 = map[[2]int]float64{{0, 1}: 0.1, {0, 2}: 0.05, {0, 3}: 0.025, {1, 2}: 0.0125, {1, 3}: 0.05, {2, 3}: 0.1}

// In a mesh every link keeps its rate, and there are no ports.
func TestMesh(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.IntRange(3, 9).Draw(rt, "hosts")
		seed := rapid.Uint64().Draw(rt, "seed")
		random := rand.New(rand.NewPCG(seed, 1))
		rate := matrix(hosts, func(a, b int) float64 { return []float64{0.1, 0.2, 0.4, 0.8}[random.IntN(4)] })
		for a := range hosts {
			for b := range a {
				rate[a][b] = rate[b][a]
			}
		}
		n := mesh(rate).infer(rt, Quick, 0.04, seed)
		if len(n.Graph.Ports) > 0 {
			rt.Fatalf("ports: %+v", n)
		}
		for _, p := range n.Graph.Links {
			near(rt, "pair", p.GBytesPerSecond, rate[p.A][p.B], 0.1)
		}
	})
}

// Any mesh gives a network that is valid and no quicker than its links allow out of each host.
func TestAnyMesh(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.IntRange(3, 8).Draw(rt, "hosts")
		seed := rapid.Uint64().Draw(rt, "seed")
		random := rand.New(rand.NewPCG(seed, 1))
		rate := matrix(hosts, func(a, b int) float64 { return 0 })
		for b := 1; b < hosts; b++ {
			for a := range b {
				if a == b-1 || random.IntN(2) == 0 {
					rate[a][b] = 0.1 * float64(1+random.IntN(8))
					rate[b][a] = rate[a][b]
				}
			}
		}
		n := mesh(rate).infer(rt, Quick, 0.05, seed)
		graph, err := Graph(slices.Collect(func(yield func(int) bool) {
			for h := range hosts {
				if !yield(h) {
					return
				}
			}
		}), nil, n)
		if err != nil {
			rt.Fatal(err)
		}
		for h := range hosts {
			leaves, sum := 0.0, 0.0
			for b := range hosts {
				leaves += rate[h][b]
			}
			for _, l := range graph.Links {
				if l.A == h || l.B == h {
					sum += l.GBytesPerSecond
				}
			}
			for _, p := range graph.Ports {
				if p.Ranks[0] == h {
					sum = min(sum, p.GBytesPerSecond)
				}
			}
			if sum > 1.5*leaves {
				rt.Fatalf("host %d may send %.3g GB/s, has links for %.3g\n%v", h, sum, leaves, graph)
			}
		}
	})
}

// With many hosts only some pairs are measured; the others follow, and an even network is still even.
func TestManyHosts(t *testing.T) {
	for _, hosts := range []int{18, 64, 200}[:testutil.Count(2, 3)] {
		n := both(slices.Repeat([]float64{1.25}, hosts)...).infer(t, Quick, 0.05, 7)
		if !n.Graph.IsEven() || len(n.Graph.Ports) != hosts {
			t.Errorf("%d hosts: not even", hosts)
		}
		estimated := 0
		for _, p := range n.Graph.Links {
			if p.Source == topo.Estimated {
				estimated++
			}
		}
		if want := hosts*(hosts-1)/2 - hosts/2*quickRounds; estimated != want {
			t.Errorf("%d hosts: %d pairs estimated, want %d", hosts, estimated, want)
		}
	}
}

// In any order of the hosts' findings, the network is the same.
func TestSameNetwork(t *testing.T) {
	w := both(0.8, 0.4, 0.2, 0.1)
	f := w.find(Full, 0.05, 3)
	names := []string{"a", "b", "c", "d"}
	want, err := Infer(names, f)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		random.Shuffle(len(f.Flows), func(i, k int) { f.Flows[i], f.Flows[k] = f.Flows[k], f.Flows[i] })
		random.Shuffle(len(f.Trips), func(i, k int) { f.Trips[i], f.Trips[k] = f.Trips[k], f.Trips[i] })
		got, err := Infer(names, f)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%+v\nbefore\n%+v", got, want)
		}
	}
}

// Turns that were lost, and invalid values, are refused or passed over.
func TestBrokenFindings(t *testing.T) {
	names := []string{"a", "b", "c"}
	good := func() *Findings { return both(1, 1, 1).find(Quick, 0, 1) }
	for what, spoil := range map[string]func(f *Findings){
		"no flows":     func(f *Findings) { f.Flows = nil },
		"no trips":     func(f *Findings) { f.Trips = nil },
		"foreign host": func(f *Findings) { f.Flows[0].Dst = 3 },
		"negative":     func(f *Findings) { f.Flows[0].Slices[0] = -1 },
		"not a number": func(f *Findings) { f.Flows[0].Slices[0] = math.NaN() },
		"no slices":    func(f *Findings) { f.Flows[0].Slices = nil },
		"turn":         func(f *Findings) { f.Flows[0].Turn = -1 },
		"trip to self": func(f *Findings) { f.Trips[0].B = f.Trips[0].A },
		"no time":      func(f *Findings) { f.Trips[0].Us = 0 },
	} {
		f := good()
		spoil(f)
		if n, err := Infer(names, f); err == nil {
			t.Errorf("%s: no error but %+v", what, n)
		}
	}
	f := good()
	for i := range f.Flows {
		if f.Flows[i].Src == 0 && f.Flows[i].Dst == 1 {
			clear(f.Flows[i].Slices) // the flow stood still
		}
	}
	n, err := Infer(names, f)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a pair with one direction lost", n.Graph.Links[0].GBytesPerSecond, 1, 0.05)
}
