package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// MaxRanks is the largest number of ranks that can be packed.
const MaxRanks = 1024

// network is a graph as the packing program sees it: every link can be used in
// two directions, called arcs, and an arc takes of some rows, which have
// capacities. The rows are the links that can be the limit, and then the ports.
//
// A tree that is used both ways, upwards and downwards, takes as much of the
// two directions of a link, and one row holds for both. A tree that is used
// downwards only takes of the direction away from the root, and every link and
// every port has a row for each direction.
type network struct {
	g      *topo.Graph
	n      int
	root   int // as in Pack
	caps   []float64
	near   [][]arc   // by rank: the arcs away from it, by the rank they lead to
	taken  [][]int32 // by arc: the rows that it takes of
	labels []Price   // by row: which link or port it is
}

// The values for trees without one root that they are used away from, or towards.
const (
	BothWays  = -1 // AllReduce: trees are used towards their root and then away from it
	EveryRoot = -2 // AllGather, ReduceScatter: trees are used one way, for every root as much
)

// ways returns the network for every root that trees are packed for.
func (w *network) ways() []*network {
	if w.root != EveryRoot {
		return []*network{w}
	}
	var list []*network
	for root := range w.n {
		list = append(list, w.from(root))
	}
	return list
}

// from returns the same network for trees used one way from a root.
func (w *network) from(root int) *network {
	c := *w
	c.root = root
	return &c
}

// arc is one direction of a link.
type arc struct {
	to int
	id int32 // 2*link, or 2*link+1 for the direction from B to A
}

func newNetwork(g *topo.Graph, root int) (*network, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if root < EveryRoot || root >= g.Ranks {
		return nil, fmt.Errorf("pack: root %d is not a rank of 0..%d", root, g.Ranks-1)
	}
	if g.Ranks > MaxRanks {
		return nil, fmt.Errorf("pack: graph of %d ranks, want at most %d", g.Ranks, MaxRanks)
	}
	if root == EveryRoot && g.Ranks > MaxPartRanks {
		return nil, fmt.Errorf("pack: graph of %d ranks, want at most %d to pack trees for every part", g.Ranks, MaxPartRanks)
	}
	w := &network{g: g, n: g.Ranks, root: root, near: make([][]arc, g.Ranks), taken: make([][]int32, 2*len(g.Links))}
	crossed := g.Crossed()
	for i, l := range g.Links {
		w.near[l.A] = append(w.near[l.A], arc{l.B, int32(2 * i)})
		w.near[l.B] = append(w.near[l.B], arc{l.A, int32(2*i + 1)})
		// The ports that a link crosses carry its load too: no narrower than one of them, it is never the limit. Of hosts
		// with a port each, that is nearly every link.
		narrower := func(p int) bool { return g.Ports[p].GBytesPerSecond <= l.GBytesPerSecond*l.PortLoad() }
		if !slices.ContainsFunc(crossed[i], narrower) {
			there, back := w.rows(l.GBytesPerSecond, Price{Link: i, Port: -1})
			w.taken[2*i], w.taken[2*i+1] = []int32{there}, []int32{back}
		}
	}
	for _, list := range w.near {
		slices.SortFunc(list, func(a, b arc) int { return cmp.Compare(a.to, b.to) })
	}
	for i, p := range g.Ports {
		out, in := w.rows(p.GBytesPerSecond, Price{Link: -1, Port: i})
		for k, l := range g.Links {
			if !slices.Contains(crossed[k], i) {
				continue
			}
			there, back := out, in
			if slices.Contains(p.Ranks, l.B) {
				there, back = in, out
			}
			w.taken[2*k], w.taken[2*k+1] = append(w.taken[2*k], there), append(w.taken[2*k+1], back)
		}
	}
	return w, nil
}

// rows adds the rows of a link or a port: one for both directions, or one for
// each.
func (w *network) rows(capacity float64, l Price) (there, back int32) {
	there = int32(len(w.caps))
	w.caps, w.labels = append(w.caps, capacity), append(w.labels, l)
	if w.root == BothWays {
		return there, there
	}
	l.Reverse = true
	w.caps, w.labels = append(w.caps, capacity), append(w.labels, l)
	return there, there + 1
}

// load is what one unit of rate over arc a takes of row r, one of those it takes of.
func (w *network) load(a, r int32) float64 {
	if w.labels[r].Link >= 0 {
		return 1
	}
	return w.g.Links[a/2].PortLoad()
}

// costs writes to cost, by arc, the sum of the prices of the rows it takes.
func (w *network) costs(price, cost []float64) {
	for a, rows := range w.taken {
		sum := 0.0
		for _, r := range rows {
			sum += float64(price[r] * w.load(int32(a), r))
		}
		cost[a] = sum
	}
}

// worth returns the worth of all rows together.
func (w *network) worth(price []float64) float64 {
	sum := 0.0
	for r, c := range w.caps {
		sum += float64(c * price[r])
	}
	return sum
}

// arcs is a spanning tree: for every rank the arc from its parent, -1 for the
// root.
type arcs []int32

func (t arcs) root() int { return slices.Index(t, -1) }

// parent is the rank from which arc a leads away; -1 for no arc.
func (w *network) parent(a int32) int {
	switch {
	case a < 0:
		return -1
	case a&1 == 0:
		return w.g.Links[a/2].A
	}
	return w.g.Links[a/2].B
}

// cost is the sum of the costs of the tree's arcs.
func (t arcs) cost(cost []float64) float64 {
	sum := 0.0
	for _, a := range t {
		if a >= 0 {
			sum += cost[a]
		}
	}
	return sum
}

// links returns the numbers of the tree's links, rising.
func (t arcs) links() []int32 {
	list := make([]int32, 0, len(t)-1)
	for _, a := range t {
		if a >= 0 {
			list = append(list, a/2)
		}
	}
	slices.Sort(list)
	return list
}

// taking is what one unit of rate takes of a row.
type taking struct {
	row  int32
	load float64
}

// column returns the tree as a variable of the packing program. Trees of every
// root take of a row for their root, too: these rows are behind the network's.
func (w *network) column(t arcs) *column {
	var takes []taking
	for _, a := range t {
		if a >= 0 {
			for _, r := range w.taken[a] {
				takes = append(takes, taking{r, w.load(a, r)})
			}
		}
	}
	if w.root == EveryRoot {
		takes = append(takes, taking{int32(len(w.caps) + t.root()), 1})
	}
	slices.SortFunc(takes, func(x, y taking) int { return cmp.Or(cmp.Compare(x.row, y.row), cmp.Compare(x.load, y.load)) })
	c := &column{}
	for i, x := range takes {
		if i > 0 && x.row == takes[i-1].row {
			c.load[len(c.load)-1] += x.load
			continue
		}
		c.rows, c.load = append(c.rows, x.row), append(c.load, x.load)
	}
	return c
}

// width is the rate that c can have alone, with the given capacity left in every row.
func (c *column) width(left []float64) float64 {
	least := math.Inf(1)
	for i, r := range c.rows {
		least = min(least, left[r]/c.load[i])
	}
	return max(0, least)
}

// pool is a set of different trees, and their columns in a program.
type pool struct {
	w     *network
	trees []arcs
	cols  []*column
	index map[string]int
}

func newPool(w *network) *pool { return &pool{w: w, index: map[string]int{}} }

// add takes in a tree and returns its number, and whether it is new. Trees
// with the same links are the same, as the root of a tree that is used both
// ways does not matter.
func (p *pool) add(t arcs) (k int, fresh bool) {
	links := t.links()
	if p.w.root == EveryRoot {
		links = append(links, int32(t.root()))
	}
	key := fmt.Sprint(links)
	if k, ok := p.index[key]; ok {
		return k, false
	}
	p.index[key] = len(p.trees)
	p.trees = append(p.trees, slices.Clone(t))
	p.cols = append(p.cols, p.w.column(t))
	return len(p.trees) - 1, true
}
