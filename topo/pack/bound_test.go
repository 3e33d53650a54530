package pack

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// everyPartition calls visit with the part of every rank, for all partitions
// of n ranks into two parts or more.
func everyPartition(n int, visit func(part []int, parts int)) {
	part := make([]int, n)
	var place func(v, parts int)
	place = func(v, parts int) {
		if v == n {
			if parts > 1 {
				visit(part, parts)
			}
			return
		}
		for p := range parts + 1 {
			part[v] = p
			place(v+1, max(parts, p+1))
		}
	}
	place(0, 0)
}

// everyTree calls visit with the links of all spanning trees of g.
func everyTree(g *topo.Graph, visit func(links []int)) {
	var chosen []int
	var choose func(next int, head []int)
	choose = func(next int, head []int) {
		if len(chosen) == g.Ranks-1 {
			visit(chosen)
			return
		}
		if next == len(g.Links) {
			return
		}
		choose(next+1, head)
		if a, b := head[g.Links[next].A], head[g.Links[next].B]; a != b {
			joined := slices.Clone(head)
			for v := range joined {
				if joined[v] == b {
					joined[v] = a
				}
			}
			chosen = append(chosen, next)
			choose(next+1, joined)
			chosen = chosen[:len(chosen)-1]
		}
	}
	head := make([]int, g.Ranks)
	for v := range head {
		head[v] = v
	}
	choose(0, head)
}

// Without ports the bound is the least of cut/(parts-1) over all partitions
// (Tutte; Nash-Williams 1961).
func TestTreeBoundIsTheLeastPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 7)
		g.Ports = nil
		want := math.Inf(1)
		everyPartition(g.Ranks, func(part []int, parts int) {
			cut := 0.0
			for _, l := range g.Links {
				if part[l.A] != part[l.B] {
					cut += l.GBytesPerSecond
				}
			}
			want = min(want, cut/float64(parts-1))
		})
		b, err := FindBound(g, BothWays)
		if err != nil {
			t.Fatal(err)
		}
		if !about(b.Rate, want) {
			t.Fatalf("bound %v, want %v", b.Rate, want)
		}
		checkPartition(t, g, b)
	})
}

// checkPartition adds the cut up that the bound names.
func checkPartition(t *rapid.T, g *topo.Graph, b Bound) {
	if b.Partition == nil {
		t.Fatalf("no partition proves the bound %v of a graph without ports", b.Rate)
	}
	cut, count := 0.0, 0
	for _, l := range g.Links {
		in := func(part []int) bool { return slices.Contains(part, l.A) && slices.Contains(part, l.B) }
		if !slices.ContainsFunc(b.Partition, in) {
			cut += l.GBytesPerSecond
			count++
		}
	}
	if !about(cut, b.Rate*float64(len(b.Partition)-1)) || count != len(b.Links) {
		t.Fatalf("partition %v has %d links of %v GB/s, the bound says %d of %v", b.Partition, count, cut, len(b.Links),
			b.Rate*float64(len(b.Partition)-1))
	}
}

// The bound of any graph with ports, against all of its spanning trees: under
// the prices none of them costs less than 1, while all capacity is worth the
// rate; and a packing reaches the rate. Either side proves the other.
func TestTreeBoundAgainstAllTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 5)
		r, err := Pack(g, BothWays, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, g, r)
		if r.Ratio < 1-1e-5 { // rows are made larger by 1e-7 against ties, which counts more in small ones
			t.Fatalf("rate %v of the bound %v", r.Rate, r.Bound.Rate)
		}
		worth := 0.0
		for _, p := range r.Bound.Prices {
			if p.Link >= 0 {
				worth += p.Price * g.Links[p.Link].GBytesPerSecond
			} else {
				worth += p.Price * g.Ports[p.Port].GBytesPerSecond
			}
		}
		if !about(worth, r.Bound.Rate) {
			t.Fatalf("the prices are worth %v, the bound is %v", worth, r.Bound.Rate)
		}
		everyTree(g, func(links []int) {
			if c := costOf(g, links, r.Bound.Prices); c < 1-1e-6 {
				t.Fatalf("the tree of links %v costs %v", links, c)
			}
		})
	})
}

func costOf(g *topo.Graph, links []int, prices []Price) float64 {
	sum := 0.0
	for _, i := range links {
		for _, p := range prices {
			if p.Link == i || p.Port >= 0 && slices.Contains(g.Ports[p.Port].Ranks,
				g.Links[i].A) != slices.Contains(g.Ports[p.Port].Ranks, g.Links[i].B) {
				if cost := g.Links[i].PortCost; cost > 0 && p.Port >= 0 {
					sum += float64(p.Price * cost)
					continue
				}
				sum += p.Price
			}
		}
	}
	return sum
}

// The minimum cut is the least over all sets of ranks, and one-way trees from
// any root reach it (Edmonds 1973).
func TestMinCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 8)
		g.Ports = nil
		want := math.Inf(1)
		for set := 1; set < 1<<(g.Ranks-1); set++ {
			cut := 0.0
			for _, l := range g.Links {
				if set>>l.A&1 != set>>l.B&1 {
					cut += l.GBytesPerSecond
				}
			}
			want = min(want, cut)
		}
		b, err := FindBound(g, rapid.IntRange(0, g.Ranks-1).Draw(t, "any root"))
		if err != nil {
			t.Fatal(err)
		}
		if !about(b.Rate, want) || len(b.Partition) != 2 {
			t.Fatalf("minimum cut %v %v, want %v", b.Rate, b.Partition, want)
		}
		checkPartition(t, g, b)
		r, err := Pack(g, rapid.IntRange(0, g.Ranks-1).Draw(t, "root"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, g, r)
		if !about(r.Rate, want) || !about(r.Bound.Rate, want) || len(r.Bound.Partition) != 2 {
			t.Fatalf("one-way trees of %v, bound %v, want the minimum cut %v", r.Rate, r.Bound, want)
		}
	})
}

// With ports a Broadcast is proved by its prices, and never faster than a cut.
func TestBroadcastWithPorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 9)
		root := rapid.IntRange(0, g.Ranks-1).Draw(t, "root")
		r, err := Pack(g, root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, g, r)
		if err := r.Bound.Check(g); err != nil {
			t.Fatal(err)
		}
		w, err := newNetwork(g, root)
		if err != nil {
			t.Fatal(err)
		}
		cut := math.Inf(1)
		for set := 1; set < 1<<(g.Ranks-1); set++ {
			var ranks []int
			for v := range g.Ranks {
				if set>>v&1 == 1 {
					ranks = append(ranks, v)
				}
			}
			rate, _ := w.across(halves(g.Ranks, ranks))
			cut = min(cut, rate)
		}
		if r.Ratio < 0.999999 || r.Rate > cut*1.000001 {
			t.Fatalf("rate %v, bound %v, minimum cut %v", r.Rate, r.Bound.Rate, cut)
		}
	})
}

// An invalid proof is refused.
func TestCheckRefuses(t *testing.T) {
	g := dgx1v()
	b, err := FindBound(g, BothWays)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(g); err != nil {
		t.Fatal(err)
	}
	low := b
	low.Rate *= 0.9
	if err := low.Check(g); err == nil || !strings.Contains(err.Error(), "worth") {
		t.Errorf("a rate below what the prices are worth: %v", err)
	}
	cheap := b
	cheap.Prices = slices.Clone(b.Prices)
	cheap.Rate -= cheap.Prices[3].Price * g.Links[3].GBytesPerSecond
	cheap.Prices[3].Price = 0
	if err := cheap.Check(g); err == nil || !strings.Contains(err.Error(), "costs") {
		t.Errorf("a link for nothing: %v", err)
	}
}

func TestBoundInWords(t *testing.T) {
	twoPairs := links(links(&topo.Graph{Ranks: 4}, 10, "01", "23"), 1, "02", "03", "12")
	half := cards(10, 10, 10, 10, 10, 10, 10, 5)
	for _, c := range []struct {
		g    *topo.Graph
		want string
	}{
		{twoPairs, "these 3 links (0-2, 0-3, 1-2) between {0,1} and {2,3} are the limit"},
		{slowLeaf(), "this link (0-7) between {0-6} and {7} is the limit"},
		{dgx1p(), "these 16 links between all 8 ranks are the limit: at most 320 GB/s can pass between the parts, and " +
			"every tree passes there 7 times"},
		{half, `the port "card of host 7" between {0-6} and {7} is the limit`},
		{subset(dgx1v(), 0, 1, 2, 3, 4, 5), "these 3 links (0-4, 1-5, 4-5) between the 3 parts {0-3} {4} {5} are the " +
			"limit: at most 125 GB/s can pass between the parts, and every tree passes there 2 times"},
		{&topo.Graph{Ranks: 1}, "none: one rank sends nothing"},
	} {
		b, err := FindBound(c.g, BothWays)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.g.Name, got, c.want)
		}
	}
}
