package tree

import (
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// loads counts the uses of the links and ports of a graph by a set of trees, as trees of a rate of 1.
type loads struct {
	links   []topo.Link // in the order of their ranks
	index   map[[2]int32]int
	touched [][]int     // by link: itself and the ports it crosses, as resources
	load    []topo.Load // by resource: links, then ports
	unit    float64     // the congestion that counts as 1
}

func newLoads(g *topo.Graph, trees []topo.Tree) *loads {
	g = g.Canonical() // the order in which links were given decides nothing
	links, ports := g.Loads(trees, slices.Repeat([]float64{1}, len(trees)))
	l := &loads{links: g.Links, index: g.LinkIndex(), load: append(links, ports...), unit: 1}
	for i, crossed := range g.Crossed() {
		touched := []int{i}
		for _, p := range crossed {
			touched = append(touched, len(g.Links)+p)
		}
		l.touched = append(l.touched, touched)
	}
	return l
}

// busiest is the largest congestion of g's links and ports under trees, in uses per GB/s.
func busiest(g *topo.Graph, trees []topo.Tree) float64 { return newLoads(g, trees).cost().busiest }

// add counts the links of t, by = 1, or takes them back, by = -1.
func (l *loads) add(t topo.Tree, by int) {
	for v, p := range t.Links() {
		i := l.index[topo.Pair(v, p)]
		for _, r := range l.touched[i] {
			l.load[r].Rate += float64(float64(by) * l.weight(i, r))
		}
	}
}

// weight is that of one use of a link in the load of a resource.
func (l *loads) weight(link, r int) float64 {
	if r < len(l.links) {
		return 1
	}
	return l.links[link].PortLoad()
}

// part is the share of one resource in the sum of a cost: the eighth power of its congestion, so that the busiest
// matter most and the next ones too.
func (l *loads) part(r int, uses float64) float64 {
	x := uses / l.load[r].Capacity / l.unit
	x *= x
	x *= x
	return float64(x * x)
}

// price is the increase of the sum when one more tree uses a link.
func (l *loads) price(link int) float64 {
	sum := 0.0
	for _, r := range l.touched[link] {
		sum += l.part(r, l.load[r].Rate+l.weight(link, r)) - l.part(r, l.load[r].Rate)
	}
	return sum
}

// loadCost compares sets of trees: by the busiest resource, then by all.
type loadCost struct {
	busiest  float64 // the largest congestion
	resource int     // that has it, the first of equals
	sum      float64
}

func (l *loads) cost() loadCost {
	var k loadCost
	for r, load := range l.load {
		if x := load.Share(); x > k.busiest {
			k.busiest, k.resource = x, r
		}
		k.sum += l.part(r, load.Rate)
	}
	return k
}

// less reports whether k is better than d by more than rounding.
func (k loadCost) less(d loadCost) bool {
	const part = 1e-9
	if math.Abs(k.busiest-d.busiest) > part*d.busiest {
		return k.busiest < d.busiest
	}
	return k.sum < d.sum*(1-part)
}

// bound returns a congestion below which no set of trees of the given number of links in all can stay: each use goes to
// the link that it makes least busy, whether the links form trees or not.
func (l *loads) bound(uses int) float64 {
	given := make([]int, len(l.links))
	busiest := 0.0
	for range uses {
		best, least := 0, math.Inf(1)
		for i := range given {
			if k := float64(given[i]+1) / l.load[i].Capacity; k < least {
				best, least = i, k
			}
		}
		given[best]++
		busiest = max(busiest, least)
	}
	return busiest
}
