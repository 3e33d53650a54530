package pack

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/topo"
)

// Bound is a rate that no packing of trees exceeds, with the proof.
//
// The proof is a price per GB/s on some links and ports, such that every tree
// costs at least 1 per GB/s, while everything together is worth Rate: trees of
// a larger rate could not be paid for. Check does the sum.
//
// Mostly the prices have a meaning in words: every tree needs parts-1 links between the parts of Partition, and Links
// and Ports let no more than Rate*(parts-1) pass there. Without ports that is always so (Tutte and Nash-Williams 1961;
// for one direction the minimum cut, Edmonds 1973). With ports it can take several partitions at once; Partition is nil
// then.
type Bound struct {
	Rate      float64 // GB/s
	Partition [][]int // ranks rising within each part, parts by their lowest rank

	// Root is that of Pack. For EveryRoot, under the prices the trees
	// with the least cost of all roots, used one way, cost 1 on average, and
	// Partition has the ranks that parts go into, and the others.
	Root int

	Prices []Price // by link, then by port; all above zero

	Links []topo.Link // the links that are the limit, each one once
	Ports []topo.Port // the ports that are the limit

	// InSwitch is the kind of a port to a switch that reduces and multicasts data itself. That is not in Rate.
	InSwitch string
}

// Price is the cost of 1 GB/s of a link or a port in the proof of a Bound.
type Price struct {
	topo.Row
	Price float64
}

// same is the relative difference within which two rates are the same.
const same = 1e-7

// FindBound returns the largest total rate at which spanning trees can be packed into g, for the root as in Pack. For
// BothWays it is a limit that no AllReduce that moves partial sums over the links of g can exceed (each tree takes its
// rate of both directions of its links, for the way up and the way down). For a root, without ports, it is the minimum
// cut of g. It is exact up to some dozens of ranks; above, where the search is cut short, it is an upper bound.
func FindBound(g *topo.Graph, root int) (Bound, error) {
	p, err := packed(g, root)
	if err != nil {
		return Bound{}, err
	}
	return p.proven(), nil
}

// proven returns the bound of a packing, in words where one partition will do.
func (p *packing) proven() Bound {
	if p.w.n == 1 {
		return p.w.priced(math.Inf(1), nil, nil)
	}
	best := p.w.priced(p.bound, p.proof, nil)
	limit := p.bound * (1 + same)
	for _, parts := range p.w.candidates(p.proof) {
		rate, prices := p.w.across(parts)
		if rate > limit || best.Partition != nil &&
			(rate > best.Rate || len(parts) >= len(best.Partition) && rate == best.Rate) {
			continue
		}
		best = p.w.priced(rate, prices, parts)
		limit = rate
	}
	return best
}

// priced makes a Bound of prices by row.
func (w *network) priced(rate float64, price []float64, parts [][]int) Bound {
	b := Bound{Rate: rate, Partition: parts, Root: w.root}
	for _, p := range w.g.Ports {
		if kind := strings.ToLower(p.Kind); kind == topo.NVLS || kind == topo.SHARP {
			b.InSwitch = kind
		}
	}
	link, port := -1, -1 // named last; the rows of a link, or of a port, stand side by side
	for r, y := range price {
		if y <= smallPrice {
			continue
		}
		l := Price{w.Rows[r], y}
		b.Prices = append(b.Prices, l)
		switch {
		case l.Link >= 0 && l.Link != link:
			link = l.Link
			b.Links = append(b.Links, w.g.Links[link])
		case l.Port >= 0 && l.Port != port:
			port = l.Port
			b.Ports = append(b.Ports, w.g.Ports[port])
		}
	}
	return b
}

// maxSides is the largest number of ranks for which all likely cuts are tried, to give the limit in words; above, it is
// given by prices more often.
const maxSides = 128

// candidates returns the partitions that prices point at. Links that cost less
// than some threshold make parts; when the threshold rises from zero, the
// prices are a mixture of the partitions that come up. So without ports one of
// them proves as much as the prices do, or more.
func (w *network) candidates(price []float64) [][][]int {
	cost := make([]float64, len(w.Takes))
	w.costs(price, cost)
	for a := 0; a < len(cost); a += 2 {
		both := max(cost[a], cost[a+1])
		cost[a], cost[a+1] = both, both
	}
	var steps []float64
	for _, a := range w.prim(0, cost) {
		if a >= 0 && cost[a] > smallPrice {
			steps = append(steps, cost[a])
		}
	}
	slices.Sort(steps)
	var list [][][]int
	for i, s := range steps {
		if i > 0 && s < steps[i-1]*(1+same) {
			continue
		}
		g := topo.Graph{Ranks: w.n}
		for l, link := range w.g.Links {
			if cost[2*l] < s*(1-same) {
				g.Links = append(g.Links, link)
			}
		}
		if w.root != EveryRoot {
			list = append(list, g.Components())
			continue
		}
		for _, part := range g.Components() {
			list = append(list, halves(w.n, part))
		}
	}
	if (w.root != BothWays || len(w.g.Ports) > 0) && w.n <= maxSides {
		list = append(list, w.sides()...)
	}
	return list
}

// across returns the bound of one partition: every tree needs parts-1 arcs between the parts, and the capacity between
// these is shared by all trees. Of a tree used one way and two parts, the arcs away from the root's part count. With
// trees for every root there are two parts, and the trees of the larger pass to the other.
func (w *network) across(parts [][]int) (rate float64, price []float64) {
	if w.root == EveryRoot {
		larger := parts[0]
		if len(parts[1]) > len(larger) {
			larger = parts[1]
		}
		share := float64(len(larger)) / float64(w.n)
		rate, price = w.from(larger[0]).across(parts)
		scale(price, 1/share)
		return rate / share, price
	}
	part := make([]int, w.n)
	for i, list := range parts {
		for _, v := range list {
			part[v] = i
		}
	}
	price = make([]float64, len(w.Caps))
	m := newMaster(w.Caps, work)
	for l, link := range w.g.Links {
		if part[link.A] == part[link.B] {
			continue
		}
		for _, a := range []int{2 * l, 2*l + 1} {
			switch takes := w.Takes[a]; {
			case w.root < 0 && a&1 == 1:
			case w.root >= 0 && len(parts) == 2 && part[w.parent(int32(a))] != part[w.root]:
			case len(takes) == 1 && w.Rows[takes[0].Row].Link >= 0: // no port: all of the link can pass
				price[takes[0].Row] = 1
			default:
				m.add(newColumn(takes))
			}
		}
	}
	m.solve(20 * len(w.Caps))
	for _, s := range m.outside {
		price[^s.variable] = max(0, -s.gain)
	}
	least := 1.0 // the cost of a column; the prices are raised where that falls short
	for _, c := range m.cols {
		least = min(least, 1-c.gain(price))
	}
	if least <= 0 {
		return math.Inf(1), price
	}
	scale(price, 1/(least*float64(len(parts)-1)))
	return w.worth(price), price
}

// Check adds up the proof: it reports an error when a tree of g costs less
// than 1, or all of g is worth something else than the rate. The relative
// error of both sums may be
// same.
func (b Bound) Check(g *topo.Graph) error {
	w, err := newNetwork(g, b.Root)
	if err != nil {
		return err
	}
	price := make([]float64, len(w.Caps))
	for _, p := range b.Prices {
		r := slices.Index(w.Rows, p.Row)
		if r < 0 || !(p.Price >= 0) {
			return fmt.Errorf("pack: a proof with a price of %v on link %d, port %d: the graph has no such row, or the price "+
				"is below zero", p.Price, p.Link, p.Port)
		}
		price[r] += p.Price
	}
	if worth := w.worth(price); math.Abs(worth-b.Rate) > same*b.Rate {
		return fmt.Errorf("pack: the prices are worth %v GB/s, not the bound %v", worth, b.Rate)
	}
	cost := make([]float64, len(w.Takes))
	w.costs(price, cost)
	least, ways := 0.0, w.ways()
	for _, v := range ways {
		least += v.cheapest(cost).cost(cost) / float64(len(ways))
	}
	if least < 1-same {
		return fmt.Errorf("pack: a tree costs %v only, the bound needs 1", least)
	}
	return nil
}

// sides returns the cuts that are likely to be the least: the ports, and the single ranks.
func (w *network) sides() (list [][][]int) {
	for v := range w.n {
		list = append(list, halves(w.n, []int{v}))
	}
	for _, p := range w.g.Ports {
		list = append(list, halves(w.n, p.Ranks))
	}
	return list
}

// halves returns the set and the ranks outside as a partition.
func halves(n int, set []int) [][]int {
	inside := make([]bool, n)
	for _, v := range set {
		inside[v] = true
	}
	parts := make([][]int, 2)
	for v := range n {
		i := 0
		if inside[v] != inside[0] {
			i = 1
		}
		parts[i] = append(parts[i], v)
	}
	return parts
}
