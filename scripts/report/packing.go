package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// packed is a graph of the page on packings, and what it is.
type packed struct {
	*topo.Graph
	about string
	bound pack.Bound
}

// packingPage is what the page is made of: its networks.
type packingPage []packed

func packingFiles(*record) (any, pictures, error) {
	all, err := packedNetworks()
	return all, nil, err
}

// packedNetworks returns all networks of the page.
func packedNetworks() (packingPage, error) {
	abilene, _ := topo.Machine("abilene")
	dgx, _ := topo.Machine("dgx1v")
	all := packingPage{
		{Graph: abilene, about: "11 sites of a research network, 14 links of 10 Gbit/s (a machine of treerun)"},
		{Graph: randomMesh(8), about: "8 sites, a random mesh"},
		{Graph: randomMesh(12), about: "12 sites, a random mesh"},
		{Graph: randomMesh(20), about: "20 sites, a random mesh"},
		{Graph: mesh4(), about: "4 hosts, a link of 100 to 800 Mbit/s between any two: the mesh of " +
			"[several-hosts.md](several-hosts.md)"},
		{Graph: dgx, about: "8 GPUs, NVLinks of 25 and 50 GB/s (a machine of treerun)"},
	}
	for i := range all {
		var err error
		if all[i].bound, err = pack.FindBound(all[i].Graph, pack.BothWays); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// randomMesh returns sites in a random mesh: a ring, and every other link with a chance
// of one in three. Links have 1 to 10 Gbit/s and 1 to 30 ms.
func randomMesh(sites int) *topo.Graph {
	const seed, gbit, ms = 5, 0.125, 1000.0
	from := rand.New(rand.NewPCG(seed, uint64(sites)))
	g := &topo.Graph{Name: fmt.Sprintf("mesh%d", sites), Ranks: sites}
	for b := range sites {
		g.Hosts = append(g.Hosts, b)
		for a := range b {
			if b-a == 1 || b-a == sites-1 || from.IntN(3) == 0 {
				rate, delay := gbit*float64(1+from.IntN(10)), ms*float64(1+from.IntN(30))
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate, LatencyUs: delay, Kind: "wan"})
			}
		}
	}
	return g
}

// mesh4 returns four hosts with a link between any two.
func mesh4() *topo.Graph {
	g := &topo.Graph{Name: "mesh4", Ranks: 4, Hosts: []int{0, 1, 2, 3}}
	for a, row := range [][]float64{{800, 400, 200}, {100, 400}, {800}} { // Mbit/s, to the hosts after a
		for i, mbits := range row {
			g.Links = append(g.Links, topo.Link{A: a, B: a + 1 + i, GBytesPerSecond: mbits / 8000, LatencyUs: 30, Kind: "tcp"})
		}
	}
	return g
}

// printGraph prints a graph of the page on packings, or N-cards-SHARE, N hosts of which
// one has a card with a share of the others' rate.
func printGraph(name string) error {
	all, err := packedNetworks()
	if err != nil {
		return err
	}
	var hosts int
	var share float64
	g := &topo.Graph{}
	if i := slices.IndexFunc(all, func(n packed) bool { return n.Name == name }); i >= 0 {
		g = all[i].Graph
	} else if n, _ := fmt.Sscanf(name, "%d-cards-%g", &hosts, &share); n == 2 {
		g = cards(hosts, share)
	} else {
		return fmt.Errorf("there is no network %s", name)
	}
	if err := g.Validate(); err != nil {
		return err
	}
	text, err := g.AppendJSON(nil)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	return err
}

// Overview has the networks with their bounds.
func (p packingPage) Overview() (table, error) {
	t := table{{"network", "", "links", "bound, GB/s", "exact, %", "trees", "highest",
		"greedy, %", "trees", "highest", "best one tree, %"}}
	for _, n := range p {
		cells := []any{n.Name, n.about, len(n.Links), n.bound.Rate}
		for _, o := range []pack.Options{{}, {Greedy: true}, {MaxTrees: 1}} {
			r, err := pack.Pack(n.Graph, pack.BothWays, o)
			if err != nil {
				return nil, err
			}
			cells = append(cells, cut(r.Ratio))
			if o.MaxTrees == 0 {
				cells = append(cells, len(r.Trees), height(r))
			}
		}
		t.line(cells...)
	}
	return t, nil
}

// Bounds says what the limit of each network is.
func (p packingPage) Bounds() (text string) {
	for _, n := range p {
		text += fmt.Sprintf("- %s: %s\n", n.Name, n.bound)
	}
	return text
}

// ByCount has the rates with at most K trees.
func (p packingPage) ByCount() (table, error) {
	greedy := make([][]*pack.Result, len(p))
	for i, n := range p {
		for part := 64.0; part > 1; part /= 2 {
			r, err := pack.Pack(n.Graph, pack.BothWays, pack.Options{Greedy: true, MinRate: n.bound.Rate / part})
			if err != nil {
				return nil, err
			}
			if r.Note == "" { // else no tree is as fast
				greedy[i] = append(greedy[i], r)
			}
		}
	}
	t := p.head("K")
	for _, k := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
		cells := []any{k}
		for i, n := range p {
			exact, err := pack.Pack(n.Graph, pack.BothWays, pack.Options{MaxTrees: k})
			if err != nil {
				return nil, err
			}
			best := 0.0
			for _, r := range greedy[i] {
				rate := 0.0 // of the k fastest
				for _, v := range r.Rates[:min(k, len(r.Rates))] {
					rate += v
				}
				best = max(best, rate/n.bound.Rate)
			}
			cells = append(cells, cut(exact.Ratio)+" / "+cut(best))
		}
		t.line(cells...)
	}
	return t, nil
}

// ByHeight has the rates under a height.
func (p packingPage) ByHeight() (table, error) {
	t := p.head("H")
	radius := map[string]int{}
	cells := []any{"radius, links"}
	for _, n := range p {
		lowest, err := pack.Pack(n.Graph, pack.BothWays, pack.Options{MaxHeight: 1e-9}) // loosened to the least that there is
		if err != nil {
			return nil, err
		}
		radius[n.Name] = height(lowest)
		cells = append(cells, radius[n.Name])
	}
	t.line(cells...)
	for more, name := range []string{"radius", "radius + 1", "radius + 2", "radius + 3"} {
		err := p.pairs(&t, name, rateOf, func(n packed) pack.Options {
			return pack.Options{MaxHeight: float64(radius[n.Name] + more)}
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// ByRate has the rates where no tree is slower than r.
func (p packingPage) ByRate() (table, error) {
	t := p.head("r")
	show := func(r *pack.Result) string {
		if r.Note != "" {
			return "-"
		}
		return fmt.Sprintf("%s (%d)", cut(r.Ratio), len(r.Trees))
	}
	for part := 64.0; part > 1; part /= 2 {
		err := p.pairs(&t, fmt.Sprintf("1/%g", part), show, func(n packed) pack.Options {
			return pack.Options{MinRate: n.bound.Rate / part}
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// ByHops and ByDelay have the heights that cost no more of the rate than is allowed, in
// links, and in milliseconds between sites.
func (p packingPage) ByHops() (table, error) {
	return p.byTolerance(false, func(r *pack.Result) string {
		return fmt.Sprintf("%d links %s", height(r),
			cut(r.Ratio))
	})
}

// ByDelay is for the networks between sites.
func (p packingPage) ByDelay() (table, error) {
	return p[:4].byTolerance(true, func(r *pack.Result) string {
		return fmt.Sprintf("%.0f ms %s", slices.Max(r.HeightsUs)/1000, cut(r.Ratio))
	})
}

func (p packingPage) byTolerance(us bool, show func(*pack.Result) string) (table, error) {
	t := p.head("allowed")
	for _, v := range []float64{0.001, 0.01, 0.05, 0.1, 0.2} {
		options := pack.Options{HeightTolerance: v, HeightUs: us}
		if err := p.pairs(&t, cut(v)+" %", show, func(packed) pack.Options { return options }); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// head begins a table with a column for every network.
func (p packingPage) head(first string) table {
	row := []string{first}
	for _, n := range p {
		row = append(row, n.Name)
	}
	return table{row}
}

// pairs adds a row with what show says of every network's exact and greedy packing.
func (p packingPage) pairs(t *table, first string, show func(*pack.Result) string,
	options func(packed) pack.Options) error {
	cells := []any{first}
	for _, n := range p {
		o := options(n)
		exact, err := pack.Pack(n.Graph, pack.BothWays, o)
		if err != nil {
			return err
		}
		o.Greedy = true
		greedy, err := pack.Pack(n.Graph, pack.BothWays, o)
		if err != nil {
			return err
		}
		cells = append(cells, show(exact)+" / "+show(greedy))
	}
	t.line(cells...)
	return nil
}

func rateOf(r *pack.Result) string { return cut(r.Ratio) }

// cut writes a share of at most 1 in percent, cut and not rounded; 100 only for all.
func cut(share float64) string { return fmt.Sprint(float64(int(share*1000+1e-3)) / 10) }

// height is that of the highest tree, in links.
func height(r *pack.Result) int {
	most := 0
	for i := range r.Trees {
		most = max(most, r.Trees[i].Depth())
	}
	return most
}
