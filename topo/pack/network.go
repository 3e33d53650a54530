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

// network is a graph as the packing program sees it. A tree that is used both ways, upwards and downwards, takes as
// much of the two directions of a link, and one row holds for both. A tree that is used downwards only takes of the
// direction away from the root, and every link and every port has a row for each direction.
type network struct {
	*topo.Flows
	g    *topo.Graph
	n    int
	root int // as in Pack
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
	return &network{Flows: g.Flows(root != BothWays), g: g, n: g.Ranks, root: root}, nil
}

// costs writes to cost, by arc, the sum of the prices of the rows it takes.
func (w *network) costs(price, cost []float64) {
	for a, takes := range w.Takes {
		sum := 0.0
		for _, t := range takes {
			sum += float64(price[t.Row] * t.Load)
		}
		cost[a] = sum
	}
}

// worth returns the worth of all rows together.
func (w *network) worth(price []float64) float64 {
	sum := 0.0
	for r, c := range w.Caps {
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

// column returns the tree as a variable of the packing program. Trees of every
// root take of a row for their root, too: these rows are behind the network's.
func (w *network) column(t arcs) *column {
	var takes []topo.Taking
	for _, a := range t {
		if a >= 0 {
			takes = append(takes, w.Takes[a]...)
		}
	}
	if w.root == EveryRoot {
		takes = append(takes, topo.Taking{Row: int32(len(w.Caps) + t.root()), Load: 1})
	}
	slices.SortFunc(takes, func(x, y topo.Taking) int {
		return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.Load, y.Load))
	})
	return newColumn(takes)
}

// newColumn returns the column that takes of rows, in rising order.
func newColumn(takes []topo.Taking) *column {
	c := &column{}
	for i, x := range takes {
		if i > 0 && x.Row == takes[i-1].Row {
			c.load[len(c.load)-1] += x.Load
			continue
		}
		c.rows, c.load = append(c.rows, x.Row), append(c.load, x.Load)
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
