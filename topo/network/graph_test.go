package network

import (
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// shared returns the links inside hosts of the given number of ranks each, host by host, and the hosts of the ranks.
func shared(hosts, each int) (hostOf []int, local []topo.Link) {
	for h := range hosts {
		for i := range each {
			hostOf = append(hostOf, h)
			for k := range i {
				local = append(local, topo.Link{A: h*each + k, B: h*each + i, GBytesPerSecond: 10, LatencyUs: 1, Kind: "shm",
					Source: topo.Measured})
			}
		}
	}
	return hostOf, local
}

func between(g *topo.Graph) (list []topo.Link) {
	for _, l := range g.Links {
		if g.Hosts[l.A] != g.Hosts[l.B] {
			list = append(list, l)
		}
	}
	return list
}

// Hosts with cards: every rank can reach every other at the rate of the hosts,
// and the ranks of a host share its card.
func TestGraphOfCards(t *testing.T) {
	hostOf, local := shared(4, 2)
	g, err := Graph(hostOf, local, both(0.8, 0.4, 0.2, 0.1).infer(t, Quick, 0.02, 1))
	if err != nil {
		t.Fatal(err)
	}
	if links := between(g); len(links) != 24 || len(g.Links) != 28 {
		t.Errorf("%d links between hosts, %d in all, want 24, 28", len(links), len(g.Links))
	}
	if len(g.Ports) != 3 { // the first host's card carries more than all others take
		t.Fatalf("ports %+v", g.Ports)
	}
	for i, want := range []float64{0.4, 0.2, 0.1} {
		near(t, g.Ports[i].Name, g.Ports[i].GBytesPerSecond, want, 0.03)
		if ranks := []int{2*i + 2, 2*i + 3}; !slices.Equal(g.Ports[i].Ranks, ranks) {
			t.Errorf("%s: ranks %v, want %v", g.Ports[i].Name, g.Ports[i].Ranks, ranks)
		}
	}
	near(t, "link 0-2", g.Rates().At(0, 2), 0.4, 0.03)
	near(t, "link 3-7", g.Rates().At(3, 7), 0.1, 0.03)
}

// Hosts that measured their own links a little differently are equal; one that is really slower is not.
func TestGraphOfAlikeHosts(t *testing.T) {
	hostOf, local := shared(3, 2)
	for i, rate := range []float64{10, 12, 2} {
		local[i].GBytesPerSecond, local[i].LatencyUs = rate, 1+0.1*rate
	}
	g, err := Graph(hostOf, local, both(1, 1, 1).infer(t, Quick, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if r := g.Rates(); r.At(0, 1) != r.At(2, 3) || r.At(4, 5) != 2 || local[0].GBytesPerSecond != 10 {
		t.Errorf("%v", g)
	}
}

// Links of their own: all traffic between the ranks of two hosts is no more than the link between the hosts carries.
func TestGraphOfMesh(t *testing.T) {
	rate := matrix(4, func(a, b int) float64 { return mesh4[[2]int{a, b}] })
	n := mesh(rate).infer(t, Quick, 0.02, 1)
	for each := 1; each <= 3; each++ {
		hostOf, local := shared(4, each)
		g, err := Graph(hostOf, local, n)
		if err != nil {
			t.Fatal(err)
		}
		links := between(g)
		if len(links) != 6 || len(g.Ports) > 0 {
			t.Fatalf("%d ranks each: %d links between hosts and ports %v", each, len(links), g.Ports)
		}
		ends := make(map[int]int)
		for _, l := range links {
			near(t, "link", l.GBytesPerSecond, rate[g.Hosts[l.A]][g.Hosts[l.B]], 0.03)
			ends[l.A]++
			ends[l.B]++
		}
		for r := range hostOf {
			if most := (3 + each - 1) / each; ends[r] > most || ends[r] == 0 {
				t.Errorf("%d ranks each: rank %d ends %d links between hosts, want 1..%d", each, r, ends[r], most)
			}
		}
	}
}

// Two hosts share the one way between them, whatever the number of their ranks.
func TestGraphOfTwoHosts(t *testing.T) {
	n := both(1.25, 1.25).infer(t, Quick, 0.02, 1)
	hostOf, local := shared(2, 3)
	g, err := Graph(hostOf, local, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(between(g)) != 9 || len(g.Ports) != 1 || len(g.Ports[0].Ranks) != 3 {
		t.Errorf("%d links, ports %+v; want 9 and one of three ranks", len(between(g)), g.Ports)
	}
	alone, err := Graph([]int{0, 1}, nil, n)
	if err != nil || len(alone.Links) != 1 || len(alone.Ports) != 0 {
		t.Errorf("one rank each: %v, %v", alone, err)
	}
}

// Many ranks: as many links as a graph may have, all hosts joined.
func TestGraphOfManyRanks(t *testing.T) {
	for _, c := range []struct{ hosts, each, links int }{
		{16, 8, 16 * 15 / 2 * 64}, {64, 8, 64 * 63 / 2 * 8}, {600, 8, 600 * 599 / 2},
	} {
		names := make([]string, c.hosts)
		hostOf, local := shared(c.hosts, c.each)
		g, err := Graph(hostOf, local, Declared(names, 1.25, 30))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(g.Links) - len(local); got != c.links || len(g.Ports) != c.hosts {
			t.Errorf("%d hosts of %d: %d links, %d ports; want %d, %d", c.hosts, c.each, got, len(g.Ports), c.links, c.hosts)
		}
	}
}

// A graph for people and planners: hosts go by their names, where these differ.
func TestPortNames(t *testing.T) {
	n := both(1, 1, 1).infer(t, Quick, 0.02, 1)
	n.Hosts = []string{"a", "same", "same"}
	g, err := Graph([]int{0, 1, 2}, nil, n)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range g.Ports {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, ", "); got != "card of a, card of host 1, card of host 2" {
		t.Error(got)
	}
}

// A network with a rate that is none gives no graph.
func TestGraphRefuses(t *testing.T) {
	n := both(1, 1, 1).infer(t, Quick, 0.02, 1)
	n.Graph.Links[0].GBytesPerSecond = 0
	if _, err := Graph([]int{0, 1, 2}, nil, n); err == nil || !strings.Contains(err.Error(), "links[0]") {
		t.Errorf("a pair without a rate: %v", err)
	}
}

func TestEffort(t *testing.T) {
	for _, e := range []Effort{Quick, Full, Off} {
		if got, err := ParseEffort(string(e)); got != e || err != nil {
			t.Errorf("%v: %v, %v", e, got, err)
		}
	}
	if _, err := ParseEffort("fast"); err == nil {
		t.Error("fast is an effort")
	}
}

// In a sample every host is in a pair, one pair at a time, and such hosts meet.
func TestSample(t *testing.T) {
	for hosts := range 20 {
		seen, meets := make(map[int]bool), Meets(Sample(hosts))
		for _, turn := range Sample(hosts) {
			if len(turn.Flows) != 1 || turn.Number >= maxTurn || !meets(turn.Flows[0][0], turn.Flows[0][1]) {
				t.Fatalf("%d hosts: %+v", hosts, turn)
			}
			seen[turn.Flows[0][0]] = true
		}
		if want := hosts; hosts > 2 && len(seen) != want {
			t.Errorf("%d hosts: %d are in a pair", hosts, len(seen))
		}
	}
}

// In no turn a host has two things to do at once, every pair of few hosts is
// measured alone both ways, and every host once with all others.
func TestTurns(t *testing.T) {
	for hosts := range 30 {
		meets := Meets(Turns(hosts, Quick))
		single := make(map[[2]int]bool)
		centers := make(map[[2]int]int) // by host and way
		for i, turn := range Turns(hosts, Quick) {
			if turn.Number != i {
				t.Fatalf("turn %d has number %d", i, turn.Number)
			}
			out, in := make([]int, hosts), make([]int, hosts)
			for _, f := range turn.Flows {
				if f[0] == f[1] || !meets(f[0], f[1]) || !meets(f[1], f[0]) {
					t.Fatalf("%d hosts: flow %v", hosts, f)
				}
				out[f[0]]++
				in[f[1]]++
			}
			for _, f := range turn.Flows {
				a, b := f[0], f[1]
				switch {
				case out[a] == 1 && in[b] == 1 && in[a] == 0 && out[b] == 0:
					single[f] = single[f] || !turn.Trips
				case in[a] == 0 && out[b] == 0 && in[b] == 1:
					centers[[2]int{a, 0}] = out[a]
				case in[a] == 0 && out[b] == 0 && out[a] == 1:
					centers[[2]int{b, 1}] = in[b]
				default:
					t.Fatalf("%d hosts, turn %d: flow %v is in the way of another", hosts, i, f)
				}
			}
		}
		if hosts >= 2 && hosts <= quickRounds+1 && len(single) != hosts*(hosts-1) {
			t.Errorf("%d hosts: %d single flows", hosts, len(single))
		}
		for h := range hosts {
			for way := range 2 {
				if peers := centers[[2]int{h, way}]; hosts > 2 && (peers < 2 || hosts <= maxPeers+1 && peers != hosts-1) {
					t.Errorf("%d hosts: host %d, way %d: a star of %d", hosts, h, way, peers)
				}
			}
		}
	}
}
