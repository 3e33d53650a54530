package draw

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/treerun/treerun/topo"
)

// palette is Okabe and Ito's, which people of all kinds of colour vision can
// tell apart, without the yellow, which is hard to see on white.
var palette = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444"}

// dashes tell strands of the same colour apart.
var dashes = [...]string{"", "7 3", "2 3", "10 3 2 3"}

func colour(strand int) string { return palette[strand%len(palette)] }

func dash(strand int) string {
	d := dashes[strand/len(palette)%len(dashes)]
	if d == "" {
		return ""
	}
	return ` stroke-dasharray="` + d + `"`
}

// The most links that are drawn, and the most that get a label.
const (
	maxWires  = 4000
	maxLabels = 150
)

const (
	warningStep = 18.0 // from line to line
	maxWarning  = 100  // characters in a line
)

// SVG draws g and p as a picture: hosts as boxes, ranks as circles, the width
// of a link by its rate, every tree and ring in a colour of its own with arrows
// from child to parent, the load at the links, and a legend. The links between
// two hosts are one line; those of them that a tree uses are drawn on their
// own.
func SVG(g *topo.Graph, p Plan) string {
	x := newPicture(g, p)
	var warnings []string
	for _, w := range p.Warnings {
		warnings = append(warnings, wrapped(w, maxWarning)...)
	}
	top := margin + titleSpace + warningStep*float64(len(warnings))
	c := &canvas{picture: x, layout: newLayout(g, top, len(x.strands) > 0, len(p.Hosts) > 0), widest: x.widest(), local: x.mostLocal()}
	lines := c.legend()
	right := c.layout.width
	width := max(right+legendWidth(lines), 2*margin+9.5*float64(utf8.RuneCountInString(x.title())))
	height := max(c.layout.height, top+legendHeight(lines)+margin)
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="Helvetica, Arial, sans-serif">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&c.b, "<title>%s</title>\n", html.EscapeString(x.title()))
	fmt.Fprintf(&c.b, `<rect width="%.0f" height="%.0f" fill="#ffffff"/>`+"\n", width, height)
	c.text(point{margin, margin + 14}, 18, "start", "#222222", x.title())
	for i, w := range warnings {
		c.text(point{margin, margin + 36 + warningStep*float64(i)}, 13, "start", "#b00000", w)
	}
	c.between()
	c.frames()
	c.links()
	c.strandLines()
	c.nodes()
	c.labels()
	c.writeLegend(point{right, top + 14}, lines)
	c.b.WriteString("</svg>\n")
	return c.b.String()
}

// canvas is an SVG file that is being written.
type canvas struct {
	*picture
	layout *layout
	b      strings.Builder
	widest float64 // GB/s of the quickest link
	local  int     // links of the host that has the most
	taken  []rect  // where names, circles and then labels stand
	fixed  int     // how many of them are no labels
	drawn  []curve // the lines that labels should not cover; nil where they are too many
}

// mostLocal counts the links of the host that has the most.
func (x *picture) mostLocal() int {
	count, most := map[int]int{}, 0
	for _, w := range x.wires {
		h := 0
		if len(x.g.Hosts) > 0 {
			if h = x.g.Hosts[w.A]; h != x.g.Hosts[w.B] {
				continue
			}
		}
		count[h]++
		most = max(most, count[h])
	}
	return most
}

func (c *canvas) text(at point, size float64, anchor, fill, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" font-size="%.0f" text-anchor="%s" fill="%s">%s</text>`+"\n",
		at.x, at.y, size, anchor, fill, html.EscapeString(s))
}

func (c *canvas) line(from, to point, width float64, stroke, more, title string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"%s`,
		from.x, from.y, to.x, to.y, stroke, width, more)
	if title == "" {
		c.b.WriteString("/>\n")
		return
	}
	fmt.Fprintf(&c.b, "><title>%s</title></line>\n", html.EscapeString(title))
}

// frames draws the boxes of the hosts, with the ports that are a host's.
func (c *canvas) frames() {
	for _, b := range c.layout.boxes {
		if !b.boxed {
			continue
		}
		fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="10" fill="#fafafa" stroke="#8a8a8a" stroke-width="1.5"/>`+"\n",
			b.at.x, b.at.y, b.size.x, b.size.y)
		name := c.hostName(b.host, mostName)
		c.taken = append(c.taken, rect{b.at, b.at.add(point{12 + 9*float64(utf8.RuneCountInString(name)), 28})})
		c.text(b.at.add(point{12, 20}), 13, "start", "#444444", name)
		if s := c.portOf(b.ranks); s != "" {
			corner := b.at.add(point{b.size.x, 0})
			c.taken = append(c.taken, rect{corner.sub(point{7*float64(len(s)) + 12, 0}), corner.add(point{0, 28})})
			c.text(corner.add(point{-12, 20}), 12, "end", "#444444", s)
		}
	}
}

// mostName is how many characters of a host's name fit beside its port.
const mostName = 14

// hostName is what a host is called, cut to so many characters.
func (x *picture) hostName(host, most int) string {
	if host >= len(x.plan.Hosts) || x.plan.Hosts[host] == "" {
		return fmt.Sprintf("host %d", host)
	}
	name := []rune(x.plan.Hosts[host])
	if len(name) > most {
		name = append(name[:most-1:most-1], '…')
	}
	return string(name)
}

// portOf writes the port that holds exactly these ranks, if there is one.
func (c *canvas) portOf(ranks []int) string {
	for i, p := range c.g.Ports {
		if sameRanks(p.Ranks, ranks) {
			return c.portLoad(i)
		}
	}
	return ""
}

// portLoad writes what is asked of a port, as at a link.
func (c *canvas) portLoad(i int) string {
	l := c.ports[i]
	rate := figure(l.Capacity) + " GB/s"
	switch {
	case len(c.strands) == 0:
		return "port " + rate
	case c.rated():
		return "port " + figure(l.Rate) + " / " + rate
	}
	return fmt.Sprintf("port %d / %s", l.Uses, rate)
}

func sameRanks(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	in := make(map[int]bool, len(a))
	for _, r := range a {
		in[r] = true
	}
	for _, r := range b {
		if !in[r] {
			return false
		}
	}
	return true
}

// nodes draws the ranks; a root has a rim in its tree's colour.
func (c *canvas) nodes() {
	for r, at := range c.layout.rank {
		stroke, width := "#333333", 1.5
		if k := c.rootOf(r); k >= 0 {
			stroke, width = colour(k), 3.5
		}
		fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="%.0f" fill="#ffffff" stroke="%s" stroke-width="%.1f"/>`+"\n",
			at.x, at.y, nodeRadius, stroke, width)
		size := 14.0
		if r > 999 {
			size = 11
		}
		c.text(at.add(point{0, size * 0.36}), size, "middle", "#111111", fmt.Sprint(r))
		c.taken = append(c.taken, rect{at.sub(point{nodeRadius, nodeRadius}), at.add(point{nodeRadius, nodeRadius})})
	}
}
