package draw

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// The measures of a picture, in pixels, and the most links and labels in it.
const (
	nodeRadius = 16.0
	margin     = 24.0 // around everything
	lineStep   = 21.0 // from line to line
	maxWires   = 4000
	maxLabels  = 28
)

// The colours that are no tree's.
const (
	black = "#222222"
	red   = "#b00000" // more than there is
	grey  = "#c3cbd5"
	pale  = "#e3e8ee" // below trees and rings
)

// palette is Okabe and Ito's, which people of all kinds of colour vision can
// tell apart, without the yellow, which is hard to see on white.
var palette = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444"}

// dashes tell strands of the same colour apart.
var dashes = [...]string{"none", "7 3", "2 3", "10 3 2 3"}

func colour(strand int) string { return palette[strand%len(palette)] }

func dash(strand int) string { return dashes[strand/len(palette)%len(dashes)] }

// SVG draws g and p as a picture: the ranks of every host on a circle, the hosts
// on a larger one, the width of a link by its rate, every tree and ring in a
// colour of its own with arrows from child to parent, the load at the links, and
// a legend. The links between two hosts are one line; those of them that a tree
// uses are drawn on their own.
func SVG(g *topo.Graph, p Plan) string {
	c := &canvas{picture: newPicture(g, p), hosts: hostsOf(g)}
	if len(c.hosts) == g.Ranks && len(p.Hosts) == 0 {
		c.hosts = hostsOf(&topo.Graph{Ranks: g.Ranks}) // a host of one rank is drawn as the rank
	}
	c.quickest = c.widest()
	var warnings []string
	for _, w := range p.Warnings {
		warnings = append(warnings, wrapped(w, 100)...)
	}
	top := 2*margin + lineStep*float64(1+len(warnings))
	corner := c.arrange(top)
	lines := c.legend()
	width := max(corner.x+legendWidth(lines), 2*margin+9.5*float64(utf8.RuneCountInString(c.title())))
	height := max(corner.y, top+lineStep*float64(len(lines)+2))
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f"`, width, height)
	c.b.WriteString(` font-family="Helvetica, Arial, sans-serif">` + "\n")
	fmt.Fprintf(&c.b, "<title>%s</title>\n", html.EscapeString(c.title()))
	fmt.Fprintf(&c.b, `<rect width="%.0f" height="%.0f" fill="#ffffff"/>`+"\n", width, height)
	c.text(point{margin, margin + 14}, 18, "start", black, c.title())
	for i, w := range warnings {
		c.text(point{margin, margin + 38 + lineStep*float64(i)}, 13, "start", red, w)
	}
	c.links()
	c.lanes()
	c.nodes()
	c.labels()
	c.writeLegend(point{corner.x, top + lineStep}, lines)
	c.b.WriteString("</svg>\n")
	return c.b.String()
}

// point is a place in the picture; y grows downwards.
type point struct{ x, y float64 }

func (p point) add(q point, f float64) point { return point{p.x + f*q.x, p.y + f*q.y} }

// canvas is an SVG file that is being written.
type canvas struct {
	*picture
	b        strings.Builder
	quickest float64 // GB/s of the quickest link
	hosts    []hostRanks
	centres  []point // by place in hosts
	frame    float64 // the radius of a host's circle
	rank     []point // by rank
	home     []int   // by rank: its place in hosts
}

// arrange puts the ranks and the hosts on their circles, below top, and returns
// the corner below and right of them.
func (c *canvas) arrange(top float64) point {
	most := 0
	for _, h := range c.hosts {
		most = max(most, len(h.ranks))
	}
	radius := max(150, circle(most, 3.2*nodeRadius))
	if len(c.hosts) > 1 {
		radius = circle(most, 4*nodeRadius)
	}
	if len(c.strands) > 0 { // with labels
		radius = max(radius, circle(min(most, 16), 7*nodeRadius))
	}
	c.frame = radius + 1.7*nodeRadius
	outer := circle(len(c.hosts), 2.5*c.frame+2*nodeRadius)
	c.centres = around(point{}, outer, len(c.hosts), 0.5)
	first := 0.5
	if len(c.hosts) > 1 {
		first = 0.25 // so that a line between two hosts misses the other ranks
	}
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, p := range c.centres {
		low = point{min(low.x, p.x), min(low.y, p.y)}
		high = point{max(high.x, p.x), max(high.y, p.y)}
	}
	c.rank, c.home = make([]point, c.g.Ranks), make([]int, c.g.Ranks)
	for i, h := range c.hosts {
		c.centres[i] = c.centres[i].add(point{margin + c.frame - low.x, top + c.frame - low.y}, 1)
		for k, at := range around(c.centres[i], min(radius, circle(len(h.ranks), 2*radius)), len(h.ranks), first) {
			c.rank[h.ranks[k]], c.home[h.ranks[k]] = at, i
		}
	}
	return point{high.x - low.x + 2*c.frame + 3*margin, top + high.y - low.y + 2*c.frame + 2*margin}
}

// circle is the radius of a circle on which n places have a distance.
func circle(n int, distance float64) float64 {
	if n == 1 {
		return 0
	}
	return distance / 2 / math.Sin(math.Pi/float64(n))
}

// around returns n places on a circle, clockwise, of which the first stands left
// of the top by the given part of the way to the next.
func around(centre point, radius float64, n int, first float64) []point {
	var list []point
	for k := range n {
		angle := 2*math.Pi*(float64(k)-first)/float64(n) - math.Pi/2
		list = append(list, centre.add(point{math.Cos(angle), math.Sin(angle)}, radius))
	}
	return list
}

func (c *canvas) text(at point, size float64, anchor, fill, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" font-size="%.0f" text-anchor="%s" fill="%s">%s</text>`+"\n",
		at.x, at.y, size, anchor, fill, html.EscapeString(s))
}

func (c *canvas) line(from, to point, width float64, stroke, dashes, title string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"`,
		from.x, from.y, to.x, to.y, stroke, width)
	fmt.Fprintf(&c.b, ` stroke-dasharray="%s"><title>%s</title></line>`+"\n", dashes, html.EscapeString(title))
}

// link returns the width and the colour of a link of some rate.
func (c *canvas) link(rate float64) (width float64, shade string) {
	if len(c.strands) > 0 {
		return 1 + 13*rate/c.quickest, pale
	}
	return 1 + 5*rate/c.quickest, grey
}

// links draws one line for all links between two hosts, the circles of the hosts
// and the links inside them, the quickest last.
func (c *canvas) links() {
	links := map[[2]int]int{} // by hosts: the links between them
	var between, inside []wire
	for _, w := range c.byRate() {
		hosts := key(c.home[w.A], c.home[w.B])
		if hosts[0] == hosts[1] {
			inside = append(inside, w)
			continue
		}
		if links[hosts]++; links[hosts] == 1 {
			between = append(between, w)
		}
	}
	if over := max(len(inside), len(between)) - maxWires; over > 0 {
		c.text(point{margin, margin + 34}, 12, "start", red, fmt.Sprintf("%d slower links are not drawn", over))
	}
	for _, w := range slices.Backward(between[:min(len(between), maxWires)]) {
		hosts := key(c.home[w.A], c.home[w.B])
		width, shade := c.link(w.GBytesPerSecond)
		c.line(c.centres[hosts[0]], c.centres[hosts[1]], width, shade, "none",
			fmt.Sprintf("%s, up to %s GB/s", numbers.Count(links[hosts], "link"), figure(w.GBytesPerSecond)))
	}
	for i, h := range c.hosts {
		if len(c.hosts) > 1 {
			at := c.centres[i]
			fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="#f8f9fb" stroke="#8a8a8a"/>`+"\n", at.x, at.y, c.frame)
			c.label(at.add(point{-0.75, -0.8}, c.frame), 0, black, c.hostName(h.host, max(8, int(c.frame/6))))
		}
	}
	for _, w := range slices.Backward(inside[:min(len(inside), maxWires)]) {
		width, shade := c.link(w.GBytesPerSecond)
		c.line(c.rank[w.A], c.rank[w.B], width, shade, "none", c.tip(w))
	}
}

// byRate returns the links, the quickest first.
func (x *picture) byRate() []wire {
	list := slices.Clone(x.wires)
	slices.SortStableFunc(list, func(a, b wire) int { return cmp.Compare(b.GBytesPerSecond, a.GBytesPerSecond) })
	return list
}

// tip is what a browser shows when the mouse points at a link.
func (c *canvas) tip(w wire) string {
	return fmt.Sprintf("%d-%d: %s GB/s, %s us %s", w.A, w.B, figure(w.GBytesPerSecond), figure(w.LatencyUs), w.Kind)
}

// lanes draws every tree and ring as lines beside each other on its links, with
// an arrow towards the parent.
func (c *canvas) lanes() {
	for _, w := range c.wires {
		a, b := c.rank[w.A], c.rank[w.B]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		side := point{(a.y - b.y) / length, (b.x - a.x) / length}
		step := min(5, 26/float64(max(len(w.lanes), 1)))
		for i, l := range w.lanes {
			ahead := point{(c.rank[l.to].x - c.rank[l.from].x) / length, (c.rank[l.to].y - c.rank[l.from].y) / length}
			off := step * (float64(i) - float64(len(w.lanes)-1)/2)
			from := c.rank[l.from].add(side, off).add(ahead, nodeRadius)
			tip := c.rank[l.to].add(side, off).add(ahead, -nodeRadius)
			half := min(5, step+1)
			back := tip.add(ahead, -2*half)
			left, right := back.add(side, 0.75*half), back.add(side, -0.75*half)
			c.line(from, back, min(2.4, 0.8*step), colour(l.strand), dash(l.strand), c.strands[l.strand].caption())
			fmt.Fprintf(&c.b, `<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fZ" fill="%s"/>`+"\n",
				tip.x, tip.y, left.x, left.y, right.x, right.y, colour(l.strand))
		}
	}
}

// nodes draws the ranks; a root has a rim in its tree's colour.
func (c *canvas) nodes() {
	for r, at := range c.rank {
		stroke, width := black, 1.5
		if k := c.rootOf(r); k >= 0 {
			stroke, width = colour(k), 3.5
		}
		fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="%.0f" fill="#ffffff" stroke="%s" stroke-width="%.1f"/>`+"\n",
			at.x, at.y, nodeRadius, stroke, width)
		c.text(point{at.x, at.y + 5}, 13, "middle", black, fmt.Sprint(r))
	}
}

// labels writes the load at the links that are used, the busiest where they are
// many, along the line: inside a host nearer to one end, where fewer lines cross, but
// for neighbours on the circle.
func (c *canvas) labels() {
	used := c.busiest(len(c.wires), func(i int) topo.Load { return c.wires[i].Load })
	for _, i := range used[:min(len(used), maxLabels)] {
		w := c.wires[i]
		a, b, ink := c.rank[w.A], c.rank[w.B], black
		if w.Share() > 1.0001 {
			ink = red
		}
		way := point{b.x - a.x, b.y - a.y}
		part := 0.5
		if near := w.B - w.A; near > 1 && near < c.g.Ranks-1 && c.home[w.A] == c.home[w.B] {
			part = 0.36 + 0.28*float64((w.A+w.B)%2)
		}
		at := a.add(way, part)
		turn := math.Atan(way.y/way.x) * 180 / math.Pi
		if way.x == 0 {
			turn = 90
		}
		c.label(at, turn, ink, c.load(w.Load))
	}
}

// label writes s on white, turned by so many degrees.
func (c *canvas) label(at point, turn float64, ink, s string) {
	half := 3.1*float64(utf8.RuneCountInString(s)) + 3
	fmt.Fprintf(&c.b, `<g transform="translate(%.1f %.1f) rotate(%.1f)">`, at.x, at.y, turn)
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="-7" width="%.1f" height="14" rx="4" fill="#ffffff" fill-opacity="0.85"/>`+"\n", -half, 2*half)
	c.text(point{0, 4}, 11, "middle", ink, s)
	c.b.WriteString("</g>\n")
}
