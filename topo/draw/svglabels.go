package draw

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// rect is a place that is taken, from its left upper to its right lower corner.
type rect struct{ low, high point }

// overlap is the area that two places share.
func (r rect) overlap(s rect) float64 {
	w := math.Min(r.high.x, s.high.x) - math.Max(r.low.x, s.low.x)
	h := math.Min(r.high.y, s.high.y) - math.Max(r.low.y, s.low.y)
	return math.Max(w, 0) * math.Max(h, 0)
}

// labels writes the load at the links: at those inside boxes that are used, or
// at all when there is nothing to use them; the busiest where they are many.
func (c *canvas) labels() {
	c.fixed = len(c.taken)
	c.drawn = c.lines()
	var list []int
	if len(c.strands) > 0 {
		list = c.busiest(len(c.wires), func(i int) topo.Load { return c.wires[i].Load })
	} else {
		for i := range c.wires {
			list = append(list, i)
		}
	}
	if len(c.strands) == 0 {
		c.trunkLabels()
		list = slices.DeleteFunc(list, func(i int) bool { return c.apart(c.wires[i]) })
		if c.uniform() {
			return // the legend says it all
		}
	}
	for _, i := range list[:min(len(list), maxLabels)] {
		c.writeLabel(c.wires[i])
	}
}

// uniform reports whether all links inside boxes have one rate.
func (c *canvas) uniform() bool {
	for _, w := range c.wires {
		if !c.apart(w) && w.GBytesPerSecond != c.widest {
			return false
		}
	}
	return true
}

// writeLabel writes one label where it covers least of what is there already.
func (c *canvas) writeLabel(w wire) {
	s := c.label(w)
	ink := "#222222"
	if w.Share() > 1.0001 {
		ink = "#b00000" // more than the link has
	}
	c.place(s, ink, c.curve(w, w.A, w.B, 0))
}

// maxCrossed bounds the lines that labels keep off: among more, there is no
// room anyway.
const maxCrossed = 400

// lines returns the lines that people see: those of the links that are used, or
// of all inside boxes when there is nothing to use them.
func (c *canvas) lines() []curve {
	var list []curve
	for _, w := range c.wires {
		if len(w.lanes) > 0 || len(c.strands) == 0 && !c.apart(w) {
			list = append(list, c.curve(w, w.A, w.B, 0))
		}
	}
	if len(list) > maxCrossed {
		return nil
	}
	return list
}

// enters reports whether the line comes into r.
func (k curve) enters(r rect) bool {
	const parts = 24
	from := k.from
	for i := 1; i <= parts; i++ {
		to := k.at(float64(i) / parts)
		if r.crossedBy(from, to) {
			return true
		}
		from = to
	}
	return false
}

// crossedBy reports whether the straight line from a to b comes into r: whether
// a part of it is inside in both directions at once.
func (r rect) crossedBy(a, b point) bool {
	first, last := 0.0, 1.0
	for _, d := range [2][4]float64{{a.x, b.x - a.x, r.low.x, r.high.x}, {a.y, b.y - a.y, r.low.y, r.high.y}} {
		at, way, low, high := d[0], d[1], d[2], d[3]
		if way == 0 {
			if at < low || at > high {
				return false
			}
			continue
		}
		in, out := (low-at)/way, (high-at)/way
		first, last = max(first, min(in, out)), min(last, max(in, out))
	}
	return first <= last
}

// places are the parts of the way along a line at which a label may stand, the
// best first.
var places = [...]float64{0.5, 0.44, 0.56, 0.38, 0.62, 0.33, 0.67, 0.28, 0.72, 0.23, 0.77, 0.19, 0.81}

// foreign is what it costs, as an area, that a label stands on another line: a
// reader would not know which of the two it belongs to.
const foreign = 160.0

// place writes s at the line k.
func (c *canvas) place(s, ink string, k curve) {
	half := point{3.1*float64(len(s)) + 3, 7.5}
	best, least := rect{}, math.Inf(1)
	for _, t := range places {
		at := k.at(t)
		r := rect{at.sub(half), at.add(half)}
		covered := 0.0
		for i, other := range c.taken {
			part := r.overlap(other)
			if i < c.fixed {
				part *= 3 // a label over a rank is worse than one over a label
			}
			covered += part
		}
		for _, other := range c.drawn {
			if other != k && other.enters(r) {
				covered += foreign
			}
		}
		if covered < least {
			best, least = r, covered
		}
	}
	c.taken = append(c.taken, best)
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" fill="#ffffff" fill-opacity="0.88"/>`+"\n",
		best.low.x, best.low.y, 2*half.x, 2*half.y)
	c.text(point{best.low.x + half.x, best.high.y - 3.7}, 11, "middle", ink, s)
}
