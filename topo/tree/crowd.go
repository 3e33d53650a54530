package tree

import (
	"cmp"
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// crowd counts how often a set of trees uses the links and ports of a graph.
type crowd struct {
	n        int
	links    []pair
	index    []int32   // by pair of ranks: the link
	touched  [][]int   // by link: itself and the ports it crosses, as resources
	capacity []float64 // by resource: links, then ports; GB/s
	uses     []int     // by resource
	unit     float64   // the crowding that counts as 1
}

func newCrowd(g *topo.Graph) *crowd {
	c := &crowd{n: g.Ranks, index: make([]int32, g.Ranks*g.Ranks)}
	for i := range c.index {
		c.index[i] = -1
	}
	g = sorted(g)
	ports := g.Crossed()
	for i, l := range g.Links {
		c.links = append(c.links, pair{a: l.A, b: l.B})
		c.index[l.A*c.n+l.B], c.index[l.B*c.n+l.A] = int32(i), int32(i)
		c.capacity = append(c.capacity, l.GBytesPerSecond)
		touched := []int{i}
		for _, p := range ports[i] {
			touched = append(touched, len(g.Links)+p)
		}
		c.touched = append(c.touched, touched)
	}
	for _, p := range g.Ports {
		c.capacity = append(c.capacity, p.GBytesPerSecond)
	}
	c.uses = make([]int, len(c.capacity))
	return c
}

// sorted is g with its links in the order of their ranks, so that the order in
// which they were given decides nothing.
func sorted(g *topo.Graph) *topo.Graph {
	h := *g
	h.Links = slices.Clone(g.Links)
	for i, l := range h.Links {
		h.Links[i].A, h.Links[i].B = min(l.A, l.B), max(l.A, l.B)
	}
	slices.SortFunc(h.Links, func(x, y topo.Link) int { return cmp.Or(x.A-y.A, x.B-y.B) })
	return &h
}

// link returns the link between two ranks, -1 without one.
func (c *crowd) link(u, v int) int { return int(c.index[u*c.n+v]) }

// add counts the links of t, by = 1, or takes them back, by = -1.
func (c *crowd) add(t topo.Tree, by int) {
	for v, p := range t.Parent {
		if p >= 0 {
			c.use(c.link(v, p), by)
		}
	}
}

func (c *crowd) use(link, by int) {
	for _, r := range c.touched[link] {
		c.uses[r] += by
	}
}

// pressure is what one resource counts in the sum of a cost: the eighth power
// of its crowding, so that the busiest matter most and the next ones too.
func (c *crowd) pressure(r, uses int) float64 {
	x := float64(uses) / c.capacity[r] / c.unit
	x *= x
	x *= x
	return x * x
}

// price is how much the sum rises when one more tree uses a link.
func (c *crowd) price(link int) float64 {
	sum := 0.0
	for _, r := range c.touched[link] {
		sum += c.pressure(r, c.uses[r]+1) - c.pressure(r, c.uses[r])
	}
	return sum
}

// crowdCost compares sets of trees: by the busiest resource, then by all.
type crowdCost struct {
	busiest float64 // the largest crowding
	sum     float64 // of the pressures
}

func (c *crowd) cost() crowdCost {
	var k crowdCost
	for r, uses := range c.uses {
		k.busiest = max(k.busiest, float64(uses)/c.capacity[r])
		k.sum += c.pressure(r, uses)
	}
	return k
}

// hottest returns the busiest resource, the first of equals.
func (c *crowd) hottest() int {
	best, most := 0, 0.0
	for r, uses := range c.uses {
		if x := float64(uses) / c.capacity[r]; x > most {
			best, most = r, x
		}
	}
	return best
}

// less reports whether k is better than d by more than rounding.
func (k crowdCost) less(d crowdCost) bool {
	const part = 1e-9
	if math.Abs(k.busiest-d.busiest) > part*d.busiest {
		return k.busiest < d.busiest
	}
	return k.sum < d.sum*(1-part)
}

// least returns a crowding below which no set of trees of so many links in all
// can stay: each use goes to the link that it makes least busy, whether the
// links form trees or not.
func (c *crowd) least(uses int) float64 {
	given := make([]int, len(c.links))
	most := 0.0
	for range uses {
		best, crowding := 0, math.Inf(1)
		for i := range given {
			if k := float64(given[i]+1) / c.capacity[i]; k < crowding {
				best, crowding = i, k
			}
		}
		given[best]++
		most = max(most, crowding)
	}
	return most
}
