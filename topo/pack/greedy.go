package pack

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/topo"
)

// greedy is step 1 of the patent (CN, Luo, Wang and Xing; also IEEE TNSE 2024,
// doi 10.1109/TNSE.2024.3419030): trees are grown one after the other in what
// the earlier ones leave over, until none is found any more.
//
// The steps S1 to S13 of the text, of which it cuts off S10 and later, are:
//
//	S1  no trees yet.                        S2  the tree is empty.
//	S3  a random rank begins it.
//	S4  the links with one end in the tree and with rate >= r left (the text
//	    says "larger than" and "not below"; this is "not below").
//	S5  no link chosen, the distance to beat is 2H.
//	S6  no links left: go to S11.
//	S7  take out the widest link, of equals the one with the lowest number.
//	S8  a chosen link is wider: go to S11. So only equals of the widest
//	    possible link compete.
//	S9  d is the largest distance between two ranks of the tree with that link.
//	S10 d is not above the distance to beat (below it, once a link is chosen):
//	    choose the link, and beat d from now on. Go to S6.
//	S11 no link chosen: this tree fails. Otherwise add the link.
//	S12 ranks are left: go to S4.
//	S13 the root is the rank of least height; the tree gets rate b; take it off
//	    the links; go to S2.
//
// Three things differ. A tree that fails is begun again from every other rank
// before the search ends. As distances within 2H do not make the height at
// most H when delays differ (the center can lie inside a link), the height is
// checked. And a link counts as wide as the ports it crosses leave it.
type greedy struct {
	w       *network
	delay   []float64 // by link
	height  float64   // H
	least   float64   // r: the rate that every link must have left
	quantum float64   // b: the rate that a tree gets, at most
	random  *rand.Rand
	left    []float64
	effort  float64 // that is left, in links looked at
}

// maxGreedy bounds the trees of one search, equal ones counted again.
const maxGreedy = 512

func newGreedy(w *network, delay []float64, height, least, quantum float64, seed uint64) *greedy {
	return &greedy{w: w, delay: delay, height: height, least: least, quantum: quantum,
		random: rand.New(rand.NewPCG(seed, 0x7265)), effort: work / 4}
}

// trees runs the search and adds the trees to the pool. Equal trees are one, with the sum of the rates.
func (g *greedy) trees(p *pool) found {
	g.left = slices.Clone(g.w.Caps)
	f := found{pool: p}
	for range maxGreedy {
		t, ok := g.next()
		if !ok || g.effort < 0 && len(f.trees) > 0 {
			break
		}
		c := g.w.column(t)
		rate := min(c.width(g.left), g.quantum)
		if rate <= 0 {
			break
		}
		for i, r := range c.rows {
			g.left[r] = max(0, g.left[r]-float64(rate*c.load[i]))
		}
		k, _ := p.add(t)
		i := slices.Index(f.trees, k)
		if i < 0 {
			i = len(f.trees)
			f.trees, f.rates = append(f.trees, k), append(f.rates, 0)
		}
		f.rates[i] += rate
	}
	return f
}

// next grows one tree, from random ranks until one succeeds.
func (g *greedy) next() (arcs, bool) {
	if g.w.root >= 0 {
		return g.grow(g.w.root)
	}
	for i, start := range g.random.Perm(g.w.n) {
		if i > 0 && g.effort < 0 {
			break // on a large network
		}
		if t, ok := g.grow(start); ok {
			return t, true
		}
	}
	return nil, false
}

// partial is a tree that is being grown.
type partial struct {
	t      arcs
	ranks  []int
	inside []bool
	dist   topo.Matrix // of two ranks inside: their distance in the tree
	far    []float64   // by rank inside: the largest of its distances
	most   float64     // the largest of all
	load   []float64   // by row
}

func (g *greedy) grow(start int) (arcs, bool) {
	n := g.w.n
	g.effort -= float64(n * len(g.w.Takes))
	s := &partial{t: make(arcs, n), ranks: []int{start}, inside: make([]bool, n),
		dist: topo.Matrix{N: n, V: make([]float64, n*n)}, far: make([]float64, n), load: make([]float64, len(g.w.Caps))}
	s.inside[start], s.t[start] = true, -1
	for len(s.ranks) < n {
		u, e, ok := g.extension(s)
		if !ok {
			return nil, false
		}
		s.add(g.w, u, e, g.delay[e.ID/2])
	}
	_, height := g.w.center(s.t, g.delay)
	return s.t, height <= g.height*(1+same)
}

// extension is S4 to S10: of the links that may be added it returns a widest
// one, of these one that keeps the largest distance least, of these the one
// with the lowest number. That is the link which the text chooses one by one.
func (g *greedy) extension(s *partial) (from int, best topo.Arc, ok bool) {
	width, dist := 0.0, 0.0
	for _, u := range s.ranks {
		for _, e := range g.w.Near[u] {
			if s.inside[e.To] {
				continue
			}
			room := g.w.room(e.ID, g.left, s.load)
			if room < g.least*(1-same) || ok && room < width {
				continue
			}
			d := max(s.most, s.far[u]+g.delay[e.ID/2])
			if d > 2*g.height*(1+same) {
				continue
			}
			if !ok || room > width || d < dist || d == dist && e.ID/2 < best.ID/2 {
				from, best, width, dist, ok = u, e, room, d, true
			}
		}
	}
	return from, best, ok
}

func (s *partial) add(w *network, from int, e topo.Arc, delay float64) {
	v := e.To
	s.t[v], s.inside[v] = e.ID, true
	for _, u := range s.ranks {
		d := s.dist.At(u, from) + delay
		s.dist.Set(u, v, d)
		s.far[u], s.far[v] = max(s.far[u], d), max(s.far[v], d)
	}
	s.most = max(s.most, s.far[v])
	s.ranks = append(s.ranks, v)
	for _, t := range w.Takes[e.ID] {
		s.load[t.Row] += t.Load
	}
}

// room is the rate that arc a leaves to a tree that has taken load so far.
func (w *network) room(a int32, left, load []float64) float64 {
	least := math.Inf(1)
	for _, t := range w.Takes[a] {
		least = min(least, left[t.Row]/(load[t.Row]+t.Load))
	}
	return least
}
