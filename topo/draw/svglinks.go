package draw

import (
	"fmt"
	"html"
	"math"
	"slices"
)

// thickness is the width of a link by its rate: areas compare as rates do, and
// many links are thinner than few.
func (c *canvas) thickness(rate float64) float64 {
	most := 5.0
	if len(c.strands) > 0 {
		most = 15
	}
	most *= math.Min(1, math.Sqrt(24/float64(max(c.local, 1))))
	return math.Max(1, most*math.Sqrt(rate/c.widest))
}

// apart reports whether a wire joins two boxes.
func (c *canvas) apart(w wire) bool { return c.layout.boxOf[w.A] != c.layout.boxOf[w.B] }

// links draws the links inside boxes, the slowest first.
func (c *canvas) links() {
	var list []wire
	for _, w := range c.wires {
		if !c.apart(w) {
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b wire) int {
		switch {
		case a.GBytesPerSecond < b.GBytesPerSecond:
			return -1
		case a.GBytesPerSecond > b.GBytesPerSecond:
			return 1
		}
		return 0
	})
	shade := "#9fb3c8"
	if len(c.strands) > 0 {
		shade = "#e4e7eb"
	}
	if len(list) > maxWires {
		c.text(point{margin, margin + 32}, 12, "start", "#a00000", fmt.Sprintf("only the %d quickest of %d links are drawn", maxWires, len(list)))
		list = list[len(list)-maxWires:]
	}
	for _, w := range list {
		c.line(c.layout.rank[w.A], c.layout.rank[w.B], c.thickness(w.GBytesPerSecond), shade, "", c.tip(w))
	}
}

// tip is what a browser shows when the mouse points at a link.
func (c *canvas) tip(w wire) string {
	s := fmt.Sprintf("%d-%d: %s GB/s", w.A, w.B, figure(w.GBytesPerSecond))
	if w.LatencyUs > 0 {
		s += fmt.Sprintf(", %s us", figure(w.LatencyUs))
	}
	if w.Kind != "" {
		s += ", " + w.Kind
	}
	if w.Uses > 0 {
		s += fmt.Sprintf(", %d uses", w.Uses)
		if c.rated() {
			s += fmt.Sprintf(", load %s GB/s", figure(w.Rate))
		}
	}
	return s
}

// curve is a line from one rank to another: straight inside a host, bent
// between hosts, so that it does not run along the circles of a whole row.
type curve struct{ from, bend, to point }

// bow is how far a line between hosts is bent, by its length.
const bow = 0.09

// curve returns the line of w from one of its ranks to the other, moved
// sideways by off.
func (c *canvas) curve(w wire, from, to int, off float64) curve {
	a, b := c.layout.rank[w.A], c.layout.rank[w.B]
	side := a.towards(b).normal()
	d := off
	if c.apart(w) {
		d += 2 * bow * b.sub(a).length()
	}
	shift := side.by(off)
	return curve{
		from: c.layout.rank[from].add(shift),
		bend: a.add(b).by(0.5).add(side.by(d)),
		to:   c.layout.rank[to].add(shift),
	}
}

// at returns the point at a part t of the way.
func (k curve) at(t float64) point {
	p, q := k.from.by(1-t).add(k.bend.by(t)), k.bend.by(1-t).add(k.to.by(t))
	return p.by(1 - t).add(q.by(t))
}

// strandLines draws every tree and ring as lines beside each other on its
// links, with an arrow towards the parent.
func (c *canvas) strandLines() {
	fastest := 0.0
	for _, s := range c.strands {
		fastest = max(fastest, s.rate)
	}
	for _, w := range c.wires {
		step := math.Min(5, 26/float64(max(len(w.lanes), 1)))
		for i, l := range w.lanes {
			width := 2.4
			if fastest > 0 {
				width = 1.4 + 2*c.strands[l.strand].rate/fastest
			}
			k := c.curve(w, l.from, l.to, step*(float64(i)-float64(len(w.lanes)-1)/2))
			fmt.Fprintf(&c.b, `<path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f" fill="none" stroke="%s" stroke-width="%.1f"%s><title>%s</title></path>`+"\n",
				k.from.x, k.from.y, k.bend.x, k.bend.y, k.to.x, k.to.y,
				colour(l.strand), math.Min(width, step*0.8), dash(l.strand), html.EscapeString(c.strands[l.strand].caption()))
			c.arrow(k, math.Min(5, step+1), colour(l.strand))
		}
	}
}

// arrow draws a head on the line k, some way before its end.
func (c *canvas) arrow(k curve, size float64, fill string) {
	length := k.to.sub(k.from).length()
	tip := k.at(1 - (nodeRadius+6)/math.Max(length, 3*nodeRadius))
	d := tip.towards(k.to)
	back, side := tip.sub(d.by(1.8*size)), d.normal().by(0.75*size)
	l, r := back.add(side), back.sub(side)
	fmt.Fprintf(&c.b, `<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fZ" fill="%s"/>`+"\n", tip.x, tip.y, l.x, l.y, r.x, r.y, fill)
}

// trunk is all links between two hosts.
type trunk struct {
	boxes [2]int
	count int
	least float64 // GB/s of the slowest
	most  float64 // and of the quickest
}

// trunks returns the pairs of hosts that have links, by first and second box.
func (c *canvas) trunks() []trunk {
	index := map[[2]int]int{}
	var list []trunk
	for _, w := range c.wires {
		if !c.apart(w) {
			continue
		}
		k := key(c.layout.boxOf[w.A], c.layout.boxOf[w.B])
		i, ok := index[k]
		if !ok {
			i = len(list)
			index[k] = i
			list = append(list, trunk{boxes: k, least: w.GBytesPerSecond})
		}
		t := &list[i]
		t.count++
		t.least, t.most = min(t.least, w.GBytesPerSecond), max(t.most, w.GBytesPerSecond)
	}
	return list
}

// maxTrunks bounds the pairs of hosts that are drawn; more would be a grey
// field.
const maxTrunks = 120

// between draws one line for all links between two hosts, behind the boxes,
// bent where boxes stand between them.
func (c *canvas) between() {
	list := c.trunks()
	if len(list) > maxTrunks {
		c.text(point{margin, margin + 32}, 12, "start", "#666666", fmt.Sprintf("links between %d pairs of hosts are not drawn unless a tree uses them", len(list)))
		return
	}
	quickest := 0.0
	for _, t := range list {
		quickest = max(quickest, t.most)
	}
	for _, t := range list {
		k := c.trunkLine(t)
		width := math.Min(14, 3+math.Sqrt(float64(t.count))) * (0.4 + 0.6*t.most/quickest)
		fmt.Fprintf(&c.b, `<path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f" fill="none" stroke="#d5dae0" stroke-width="%.1f"><title>%s GB/s</title></path>`+"\n",
			k.from.x, k.from.y, k.bend.x, k.bend.y, k.to.x, k.to.y, width, t.caption())
	}
}

// trunkLine is the line between two hosts, from middle to middle.
func (c *canvas) trunkLine(t trunk) curve {
	p, q := c.layout.boxes[t.boxes[0]].centre(), c.layout.boxes[t.boxes[1]].centre()
	pitch := c.layout.boxes[0].size.x + gap
	bend := 0.0
	if q.sub(p).length() > 1.5*pitch {
		bend = 0.7 * pitch
	}
	return curve{p, p.add(q).by(0.5).add(p.towards(q).normal().by(bend)), q}
}

// caption says how many links there are, and of what rate.
func (t trunk) caption() string {
	if t.least != t.most {
		return fmt.Sprintf("%d x %s..%s", t.count, figure(t.least), figure(t.most))
	}
	if t.count == 1 {
		return figure(t.most)
	}
	return fmt.Sprintf("%d x %s", t.count, figure(t.most))
}

// trunkLabels writes at the lines between hosts what they stand for.
func (c *canvas) trunkLabels() {
	list := c.trunks()
	if len(list) > maxTrunks/4 {
		return
	}
	for _, t := range list {
		c.place(t.caption(), "#222222", c.trunkLine(t))
	}
}
