package pack

import "slices"

// equalTrees returns so many spanning trees that fit into the links with one
// and the same rate, which is the largest for which the search finds them, nil
// when there are none. Ports are not looked at.
//
// At rate r link e has room for floor(rate of e/r) trees, so the largest r is
// some link's rate divided by 1, 2, ... trees; more room never hurts, so it is
// found by halving.
// No rate above most is tried.
func (w *network) equalTrees(trees int, most float64) []arcs {
	var rates []float64
	for _, l := range w.g.Links {
		for j := 1; j <= trees; j++ {
			if r := l.GBytesPerSecond / float64(j); r <= most {
				rates = append(rates, r)
			}
		}
	}
	slices.Sort(rates)
	rates = slices.Compact(rates)
	var best []arcs
	for lo, hi := 0, len(rates); lo < hi; {
		mid := (lo + hi) / 2
		if found := w.disjoint(trees, rates[mid]); found != nil {
			best, lo = found, mid+1
		} else {
			hi = mid
		}
	}
	return best
}

// disjoint returns so many spanning trees of rate r that no link is
// overbooked, nil when there are none. It is the algorithm for a partition
// into independent sets of a matroid (Edmonds 1965), for forests: copies of
// links are put into the trees one by one; where a copy would close a cycle it
// takes the place of a copy on the cycle, which goes to another tree.
func (w *network) disjoint(trees int, r float64) []arcs {
	f := &forests{w: w, via: make([]int, w.n), from: make([]int, w.n)}
	for range trees {
		f.near = append(f.near, make([][]arc, w.n))
	}
	for l, link := range w.g.Links {
		for range min(trees, int(link.GBytesPerSecond/r*(1+same))) {
			f.link = append(f.link, l)
			f.tree = append(f.tree, -1)
		}
	}
	spare := len(f.link) - trees*(w.n-1)
	full := -1 // the last link that had no room
	for c, l := range f.link {
		if spare >= 0 && (l == full || !f.insert(c)) {
			full = l
			spare--
		}
	}
	if spare < 0 {
		return nil
	}
	return f.arcs()
}

// forests are disjoint sets of link copies without cycles.
type forests struct {
	w    *network
	near [][][]arc // by tree and rank: the copies there; id is the copy
	link []int     // by copy: its link
	tree []int     // by copy: its tree, -1 for none

	via, from []int // scratch of path
}

// insert makes room for a new copy, and reports whether there was any.
func (f *forests) insert(fresh int) bool {
	type cause struct{ copy, tree int } // copy goes to tree, where this one is
	from := make([]cause, fresh+1)
	for i := range from {
		from[i] = cause{-1, -1}
	}
	queue := []int{fresh}
	for len(queue) > 0 {
		c := queue[0]
		queue = queue[1:]
		for t := range f.near {
			if t == f.tree[c] {
				continue
			}
			cycle, closed := f.path(t, f.link[c])
			if !closed {
				for t >= 0 { // every copy on the way goes to the tree of the one it pushes out
					why := from[c]
					f.move(c, t)
					c, t = why.copy, why.tree
				}
				return true
			}
			for _, d := range cycle {
				if d != fresh && from[d].tree < 0 {
					from[d] = cause{c, t}
					queue = append(queue, d)
				}
			}
		}
	}
	return false
}

// path returns the copies of tree t between the ends of a link, and whether
// there is such a path.
func (f *forests) path(t, link int) (copies []int, found bool) {
	a, b := f.w.g.Links[link].A, f.w.g.Links[link].B
	via, from := f.via, f.from // by rank: the copy that led there, plus one; the rank before
	clear(via)
	queue := []int{a}
	via[a] = -1
	for len(queue) > 0 && via[b] == 0 {
		u := queue[0]
		queue = queue[1:]
		for _, e := range f.near[t][u] {
			if via[e.to] == 0 {
				via[e.to], from[e.to] = int(e.id)+1, u
				queue = append(queue, e.to)
			}
		}
	}
	if via[b] == 0 {
		return nil, false
	}
	for v := b; v != a; v = from[v] {
		copies = append(copies, via[v]-1)
	}
	return copies, true
}

// move puts a copy into tree t.
func (f *forests) move(c, t int) {
	l := f.w.g.Links[f.link[c]]
	if old := f.tree[c]; old >= 0 {
		for _, v := range []int{l.A, l.B} {
			f.near[old][v] = slices.DeleteFunc(f.near[old][v], func(e arc) bool { return int(e.id) == c })
		}
	}
	f.tree[c] = t
	f.near[t][l.A] = append(f.near[t][l.A], arc{l.B, int32(c)})
	f.near[t][l.B] = append(f.near[t][l.B], arc{l.A, int32(c)})
}

// arcs returns the trees, all of them spanning, from rank 0.
func (f *forests) arcs() []arcs {
	list := make([]arcs, len(f.near))
	for t, near := range f.near {
		list[t] = make(arcs, f.w.n)
		list[t][0] = -1
		done := make([]bool, f.w.n)
		done[0] = true
		queue := []int{0}
		for len(queue) > 0 {
			u := queue[0]
			queue = queue[1:]
			for _, e := range near[u] {
				if done[e.to] {
					continue
				}
				done[e.to] = true
				l := f.link[e.id]
				a := int32(2 * l)
				if f.w.g.Links[l].A != u {
					a++
				}
				list[t][e.to] = a
				queue = append(queue, e.to)
			}
		}
	}
	return list
}
