package draw

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// The measures of a picture, in pixels, and the most links, and lines of a kind
// in the legend.
const (
	nodeRadius = 16.0
	margin     = 24.0 // around everything
	lineStep   = 21.0 // from line to line
	letter     = 0.56 // the width of one, as a part of its height
	maxLinks   = 4000
	maxLines   = 24
)

// The colours that are no tree's.
const (
	black = "#222222"
	red   = "#b00000" // more than there is
	grey  = "#d3dae2"
)

// palette is Okabe and Ito's, which people of all kinds of colour vision can
// tell apart, with a wine red for the yellow, which is hard to see on white.
var palette = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#882255"}

func colour(overlay int) string { return palette[overlay%len(palette)] }

// SVG draws g and p as a picture: the ranks on a circle, those of a host side by side
// under its name, the width of a link by its rate, every tree and ring in a colour of its
// own with arrows from child to parent, and a legend.
func SVG(g *topo.Graph, p Plan) string {
	c := &canvas{picture: newPicture(g, p)}
	c.text(point{margin, margin + 14}, 18, "start", black, c.title)
	at := c.arrange()
	c.links()
	c.lanes()
	c.nodes()
	for _, l := range c.legend() {
		c.text(at, 12, "start", l.colour, l.text)
		at.y += lineStep
	}
	size := fmt.Sprintf(`width="%.0f" height="%.0f"`, c.corner.x+margin, c.corner.y+margin)
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" %s font-family="Helvetica, Arial, sans-serif">`+"\n",
		size)
	head += fmt.Sprintf("<title>%s</title>\n<rect %s fill=\"#ffffff\"/>\n", html.EscapeString(c.title), size)
	for i, fill := range palette {
		head += fmt.Sprintf(`<marker id="arrow%d" orient="auto" markerUnits="userSpaceOnUse"`, i)
		head += ` markerWidth="10" markerHeight="8" refX="10" refY="4">`
		head += fmt.Sprintf(`<path d="M0 0L10 4L0 8Z" fill="%s"/></marker>`+"\n", fill)
	}
	return head + c.b.String() + "</svg>\n"
}

// point is a place in the picture; y grows downwards.
type point struct{ x, y float64 }

func (p point) add(q point, f float64) point {
	return point{p.x + float64(f*q.x), p.y + float64(f*q.y)}
}

// canvas is an SVG file that is being written.
type canvas struct {
	*picture
	b      strings.Builder
	ranks  []point // by rank
	corner point   // of all that is drawn, below and right
}

// arrange puts the ranks on their circle, and the names of several hosts around it. It
// returns the place of the legend.
func (c *canvas) arrange() point {
	hosts := c.hosts()
	gap, longest := 0, 0 // between hosts, and the width of a name
	if len(hosts) > 1 && len(hosts) < c.g.Ranks {
		gap = 1
	}
	for _, h := range hosts {
		longest = max(longest, utf8.RuneCountInString(h.name))
	}
	slots := float64(c.g.Ranks + gap*len(hosts))
	radius := max(150, slots*4*nodeRadius/(2*math.Pi))
	if len(c.overlays) > 0 {
		radius = float64(radius * 1.5)
	}
	around := radius + 3*nodeRadius
	side := around + float64(13*letter*float64(longest))
	centre := point{margin + side, 2*margin + around}
	at := func(slot, radius float64) (place, way point) {
		turn := 2*math.Pi*(slot+0.5)/slots - math.Pi/2
		way = point{math.Cos(turn), math.Sin(turn)}
		return centre.add(way, radius), way
	}
	c.ranks = make([]point, c.g.Ranks)
	slot := 0
	for _, h := range hosts {
		for i, r := range h.ranks {
			c.ranks[r], _ = at(float64(slot+i), radius)
		}
		place, way := at(float64(slot)+float64(float64(len(h.ranks)-1)/2), radius+2*nodeRadius)
		if h.name != "" {
			anchor := []string{"end", "middle", "start"}[1+int(math.Round(way.x))]
			c.text(place.add(point{0, 4}, 1), 13, anchor, black, h.name)
		}
		slot += len(h.ranks) + gap
	}
	c.corner.y = max(c.corner.y, centre.y+around)
	return point{centre.x + side + margin, 3 * margin}
}

func (c *canvas) text(at point, size float64, anchor, fill, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" font-size="%.0f" text-anchor="%s" fill="%s"`, at.x, at.y, size, anchor,
		fill)
	fmt.Fprintf(&c.b, ` stroke="#ffffff" stroke-width="3" paint-order="stroke">%s</text>`+"\n", html.EscapeString(s))
	if anchor == "start" {
		at.x += float64(size * letter * float64(utf8.RuneCountInString(s)))
	}
	c.corner = point{max(c.corner.x, at.x), max(c.corner.y, at.y)}
}

// line draws a line; what its title says is seen where the mouse points at it.
func (c *canvas) line(from, to point, width float64, stroke, more, title string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"`, from.x, from.y, to.x, to.y)
	fmt.Fprintf(&c.b, ` stroke="%s" stroke-width="%.1f"%s><title>%s</title></line>`+"\n",
		stroke, width, more, html.EscapeString(title))
}

// links draws the links, the quickest last, in red where the load is more than the rate.
func (c *canvas) links() {
	for _, l := range slices.Backward(c.byRate[:min(len(c.byRate), maxLinks)]) {
		width, ink := 1+float64(7*l.GBytesPerSecond/c.byRate[0].GBytesPerSecond), grey
		load := c.picture.links[c.index[topo.Pair(l.A, l.B)]]
		if load.Share() > 1.0001 {
			ink = red
		}
		c.line(c.ranks[l.A], c.ranks[l.B], width, ink, "", fmt.Sprintf("%d-%d: %s GB/s, %s us %s",
			min(l.A, l.B), max(l.A, l.B), c.load(load), figure(l.LatencyUs), l.Kind))
	}
}

// lanes draws every tree and ring as lines beside each other on its links, with
// an arrow towards the parent.
func (c *canvas) lanes() {
	for _, link := range c.g.Links {
		a, b := c.ranks[min(link.A, link.B)], c.ranks[max(link.A, link.B)]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		side := point{(a.y - b.y) / length, (b.x - a.x) / length}
		lanes := c.picture.lanes[topo.Pair(link.A, link.B)]
		step := min(6, 26/float64(max(len(lanes), 1)))
		for i, l := range lanes {
			from := c.ranks[l.from].add(side, step*float64(2*i+1-len(lanes))/2)
			way := c.ranks[l.to].add(c.ranks[l.from], -1)
			arrow := fmt.Sprintf(` marker-end="url(#arrow%d)"`, l.overlay%len(palette))
			c.line(from.add(way, nodeRadius/length), from.add(way, 1-nodeRadius/length), min(2, 0.8*step),
				colour(l.overlay), arrow, c.overlays[l.overlay].caption)
		}
	}
}

// nodes draws the ranks, a root with a rim in its tree's colour.
func (c *canvas) nodes() {
	for r, at := range c.ranks {
		stroke, width := black, 1.5
		if k := c.rootOf(r); k >= 0 {
			stroke, width = colour(k), 3.5
		}
		fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="%.0f" fill="#ffffff" stroke="%s" stroke-width="%.1f"/>`+"\n",
			at.x, at.y, nodeRadius, stroke, width)
		c.text(at.add(point{0, 5}, 1), 13, "middle", black, fmt.Sprint(r))
	}
}

// legendLine is one line of the legend.
type legendLine struct{ colour, text string }

// legend says what stands for what, a tree or a ring in its colour.
func (c *canvas) legend() (list []legendLine) {
	say := func(colour, text string) {
		for _, part := range numbers.Wrapped(text, 64) {
			list = append(list, legendLine{colour, part})
		}
	}
	for _, w := range c.plan.Warnings {
		say(red, w)
	}
	if over := len(c.byRate) - maxLinks; over > 0 {
		say(red, fmt.Sprintf("%d slower links are not drawn", over))
	}
	say(black, numbers.Count(c.g.Ranks, "rank")+", "+numbers.Count(len(c.g.Links), "link"))
	for i, o := range c.overlays[:min(len(c.overlays), maxLines)] {
		say(colour(i), o.caption)
	}
	for i, p := range c.g.Ports[:min(len(c.ports), maxLines)] {
		say(black, fmt.Sprintf("%s: %s GB/s", p.Name, c.load(c.ports[i])))
	}
	if more := max(len(c.overlays)-maxLines, 0) + max(len(c.ports)-maxLines, 0); more > 0 {
		say(black, fmt.Sprintf("and %d more trees, rings and ports", more))
	}
	if len(c.overlays) > 0 {
		say(black, "load / rate of a link: under the mouse")
	}
	for _, e := range c.absent {
		say(black, fmt.Sprintf("no link %d-%d", e[0], e[1]))
	}
	for _, n := range c.plan.Notes {
		say(black, n)
	}
	return list
}
