package collective

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// Mbit/s of payload.
const mbit = 1e6 / 8 * 0.956 / 1e9

// networkOf returns a graph of hosts of so many ranks each, by turns or one host
// after the other, with a wire per pair of hosts of that rate, 0 for none, and a
// card for every host with a rate.
func networkOf(hosts, each int, wire func(a, b int) float64, card func(h int) float64) *topo.Graph {
	g := &topo.Graph{Name: "network", Ranks: hosts * each, Hosts: make([]int, hosts*each)}
	for r := range g.Ranks {
		g.Hosts[r] = r / each
		for q := r / each * each; q < r; q++ {
			g.Links = append(g.Links, topo.Link{A: q, B: r, GBytesPerSecond: 12, LatencyUs: 0.5, Kind: "shm", Source: topo.Measured})
		}
	}
	for a := range hosts {
		for b := a + 1; b < hosts; b++ {
			if rate := wire(a, b); rate > 0 {
				g.Links = append(g.Links, topo.Link{A: a * each, B: b * each, GBytesPerSecond: rate, LatencyUs: 25, Kind: topo.TCP, Source: topo.Measured})
			}
		}
		if rate := card(a); rate > 0 {
			p := topo.Port{Name: fmt.Sprintf("card of host %d", a), GBytesPerSecond: rate}
			for i := range each {
				p.Ranks = append(p.Ranks, a*each+i)
			}
			g.Ports = append(g.Ports, p)
		}
	}
	return g
}

func always(rate float64) func(int) float64     { return func(int) float64 { return rate } }
func wires(rate float64) func(int, int) float64 { return func(int, int) float64 { return rate } }

// evenNet is hosts with a card of 500 Mbit/s each.
func evenNet(hosts, each int) *topo.Graph {
	return networkOf(hosts, each, wires(500*mbit), always(500*mbit))
}

// unevenNet is four hosts with cards of 800, 400, 200 and 100 Mbit/s.
func unevenNet(each int) *topo.Graph {
	cards := []float64{800 * mbit, 400 * mbit, 200 * mbit, 100 * mbit}
	return networkOf(4, each, func(a, b int) float64 { return min(cards[a], cards[b]) }, func(h int) float64 { return cards[h] })
}

// meshNet is four hosts with a link of its own for every pair.
func meshNet(each int) *topo.Graph {
	rates := [4][4]float64{{0, 800, 400, 200}, {0, 0, 100, 400}, {0, 0, 0, 800}}
	return networkOf(4, each, func(a, b int) float64 { return rates[a][b] * mbit }, always(0))
}

func testNetworks() map[string]*topo.Graph {
	all := map[string]*topo.Graph{}
	for each := 1; each <= 2; each++ {
		all[fmt.Sprintf("even, %d each", each)] = evenNet(4, each)
		all[fmt.Sprintf("mesh, %d each", each)] = meshNet(each)
		all[fmt.Sprintf("uneven cards, %d each", each)] = unevenNet(each)
	}
	return all
}

func plannerOf(t testing.TB, g *topo.Graph) *planner {
	t.Helper()
	cfg := defaults()
	cfg.cores = 2
	p, err := newPlanner(g, 0, &cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHostsHarness makes every collective with ranks spread over hosts in any
// way, in every shape of plan for hosts and with what is chosen by price, over
// even and uneven networks, and compares all memory with the oracle.
func TestHostsHarness(t *testing.T) {
	for _, size := range harnessSizes() {
		for hosts := 2; hosts <= min(4, size); hosts++ {
			if raceDetector && size > 3 && hosts != 3 {
				continue
			}
			for s := flat; s <= allShapes; s++ { // the last one: by price
				if s == oneTree || s == allTrees || s == directOne || s == directMany || s == starShape {
					continue
				}
				t.Run(fmt.Sprintf("ranks=%d/hosts=%d/%s", size, hosts, shapeName(s)), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(uint64(size), uint64(hosts)<<8|uint64(s)))
					g := scattered(size, hosts, rng)
					opts := []Option{WithGraph(g)}
					if s < allShapes {
						opts = append(opts, forced(s))
					}
					if slot := slotSizes[rng.IntN(len(slotSizes))]; slot.slots > 0 {
						opts = append(opts, WithSlots(slot.slots, slot.bytes))
					}
					tryHosts(t, newHosts(g), size, s, rng, opts)
				})
			}
		}
	}
}

func shapeName(s shape) string {
	if s == allShapes {
		return "by price"
	}
	return s.String()
}

// scattered returns a network of hosts that have one rank at least, each rank on
// any of them, with wires and cards of any rates.
func scattered(size, hosts int, rng *rand.Rand) *topo.Graph {
	g := &topo.Graph{Ranks: size, Hosts: rng.Perm(size)}
	first := make([]int, hosts)
	for r, h := range g.Hosts {
		if h >= hosts {
			g.Hosts[r] = rng.IntN(hosts)
		} else {
			first[h] = r
		}
	}
	for r, h := range g.Hosts {
		for q := range r {
			if g.Hosts[q] == h {
				g.Links = append(g.Links, topo.Link{A: q, B: r, GBytesPerSecond: 10, LatencyUs: 1, Kind: "shm"})
			}
		}
	}
	even := rng.IntN(3) == 0
	rate := func() float64 {
		if even {
			return 1
		}
		return float64(1 + rng.IntN(8))
	}
	for a := range hosts {
		for b := range a {
			g.Links = append(g.Links, topo.Link{A: first[b], B: first[a], GBytesPerSecond: rate(), LatencyUs: 20, Kind: topo.TCP})
		}
	}
	for h := 0; h < hosts && rng.IntN(2) == 0; h++ {
		p := topo.Port{Name: fmt.Sprint("card ", h), GBytesPerSecond: rate()}
		for r, at := range g.Hosts {
			if at == h {
				p.Ranks = append(p.Ranks, r)
			}
		}
		g.Ports = append(g.Ports, p)
	}
	return g
}

// tryHosts makes some of the calls that shape s is for, or of all.
func tryHosts(t *testing.T, h *hosts, size int, s shape, rng *rand.Rand, opts []Option) {
	all := slices.DeleteFunc(casesFor(flat, size), func(testCase) bool { return true })
	for of := range shapes {
		all = append(all, casesFor(of, size)...)
	}
	if s < allShapes {
		all = slices.DeleteFunc(all, func(c testCase) bool { return !h.fits(c.kind, s) })
	}
	few, fewLarge := 12, 1
	if raceDetector {
		few, fewLarge = 4, 0
	}
	cases := drawn(all, few, fewLarge, rng)
	mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
		for i, tc := range cases {
			tr := tc.typed(c, tc.call)
			if err := tr.run(t.Context()); err != nil {
				return fmt.Errorf("case %d, %v: %w", i, tr, err)
			}
			if err := tr.check(); err != nil {
				return fmt.Errorf("case %d: %w", i, err)
			}
			if name, _ := c.Choice(tc.kind, 64); s < allShapes && c.plans.hosts.fits(tc.kind, s) && name != s.String() {
				return fmt.Errorf("case %d: %v ran as %s", i, tr, name)
			}
		}
		return nil
	}, opts...)
}

// TestHostsReachTheBound: what is chosen for 16 MiB is priced at 95 % of what the
// network allows, as far as links and cards go, or more; with two ranks on every
// host, and where every rank has a part, at 90 %.
func TestHostsReachTheBound(t *testing.T) {
	const bytes = 16 << 20
	for name, g := range testNetworks() {
		t.Run(name, func(t *testing.T) {
			p := plannerOf(t, g)
			least := 0.95
			if p.hosts.most > 1 {
				least = 0.9
			}
			both, err := pack.TreeBound(p.hosts.between)
			if err != nil {
				t.Fatal(err)
			}
			from, err := pack.BroadcastBound(p.hosts.between, 0)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := pack.PartsBound(p.hosts.between)
			if err != nil {
				t.Fatal(err)
			}
			for kind, bound := range map[plan.Kind]pack.Bound{
				plan.AllReduce: both, plan.Broadcast: from, plan.Reduce: from, plan.AllGather: parts, plan.ReduceScatter: parts,
			} {
				least := least
				if kind.HasParts() {
					least = 0.9
				}
				s, us := p.choice(kind, bytes)
				if rate := bytes / us / 1e3; rate < least*bound.Rate || rate > 1.001*bound.Rate {
					t.Errorf("%v takes %s at %.4g GB/s, %.1f %% of the bound, %.4g GB/s", kind, s, rate, 100*rate/bound.Rate, bound.Rate)
				}
			}
		})
	}
}

// TestLinksOfManyHosts: on many hosts a rank has links to a number of ranks of
// other hosts that grows with the logarithm of the number of hosts.
func TestLinksOfManyHosts(t *testing.T) {
	before := 0
	for hosts := 32; hosts <= 128; hosts *= 2 {
		p := plannerOf(t, evenNet(hosts, 8))
		near := make([]map[int]bool, p.size)
		for r := range near {
			near[r] = make(map[int]bool)
		}
		for _, k := range p.lanes.links {
			if p.hosts.host[k.Src] != p.hosts.host[k.Dst] {
				near[k.Src][k.Dst] = true
			}
		}
		most, all := 0, 0
		for _, peers := range near {
			most, all = max(most, len(peers)), all+len(peers)
		}
		if limit := 3*bits.Len(uint(hosts)) + 6; most > limit || before > 0 && most > before+4 {
			t.Errorf("%d hosts: a rank has links to %d on other hosts, want at most %d, and 4 more than %d", hosts, most, limit, before)
		}
		if each := float64(all) / float64(p.size); each > 12 {
			t.Errorf("%d hosts: a rank has links to %.1f on other hosts on average, want 12 at most", hosts, each)
		}
		if p.runs(plan.AllToAll) || p.runs(plan.AllGather) || !p.runs(plan.Reduce) || p.messageLane() >= 0 {
			t.Errorf("%d hosts: what needs links between all ranks is offered", hosts)
		}
		before = most
	}
}

// A choice made for a size stands for those up to four times it: where that size
// does not tell two chunk sizes apart, what pays for the larger ones counts. So
// messages between the sizes that are priced have chunks that their own price asks
// for.
func TestChunksBetweenPricedSizes(t *testing.T) {
	p := plannerOf(t, evenNet(4, 1))
	if err := p.choosing(plan.AllReduce); err != nil {
		t.Fatal(err)
	}
	const bytes = 1 << 20 // priced are 512 KiB and 2 MiB
	c := p.choiceFor(plan.AllReduce, bytes)
	m, err := p.planFor(plan.AllReduce, 0, c.shape)
	if err != nil {
		t.Fatal(err)
	}
	_, want, err := p.priceHosts(m.plan, bytes, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	share := widestShare(m.plan, bytes)
	if got, asked := c.chunks.Of(share, p.slotBytes), want.Of(share, p.slotBytes); got != asked {
		t.Errorf("%v of %d bytes goes in chunks of %d, by its own price of %d", c.shape, bytes, got, asked)
	}
}
