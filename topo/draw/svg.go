package draw

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// The measures of a picture, in pixels, and the most wires, and lines of a kind in the
// legend or small drawings.
const (
	nodeRadius = 16.0
	portRadius = 6.0
	smallNode  = 9.0  // of a rank in a small drawing
	margin     = 24.0 // around everything
	lineStep   = 21.0 // from line to line
	maxLinks   = 4000
	maxLines   = 24
	columns    = 3 // of small drawings
)

// SVG draws g and p as a picture: the ranks of every host on a circle, the hosts on one, ports
// before the ranks that they hold, the width of a link by its rate, and a legend. A single
// tree or ring is drawn on that, with arrows from child to parent; several have a small
// drawing each below.
func SVG(g *topo.Graph, p Plan) string {
	c := &canvas{picture: newPicture(g, p)}
	about := numbers.Count(g.Ranks, "rank") + ", " + numbers.Count(len(g.Links), "link")
	c.connect()
	c.arrange()
	c.placePorts()
	c.WriteString(`<g id="graph">` + "\n")
	c.drawWires()
	c.WriteString("</g>\n")
	shown := c.overlays[:min(len(c.overlays), maxLines)]
	if len(shown) == 1 {
		c.drawRanks(c.at, nodeRadius, 0)
		shown = nil
	} else {
		c.drawRanks(c.at, nodeRadius, -1)
	}
	c.drawPorts()
	legend := chart.At(c.Corner.X+2*margin, 3*margin)
	c.Text(chart.At(margin, margin+14), 18, "start", chart.Ink, c.title)
	for i, o := range shown {
		c.drawSmall(i, o.caption)
		about += "; " + o.caption
	}
	c.legend(legend)
	return string(c.Whole(c.title, about, margin))
}

// wire is a line of a picture between two nodes, which are ranks or, from their number on, ports: links that leave and
// enter by the same ports, or the contents of a port.
type wire struct {
	a, b  int
	links []topo.Link // the quickest first; empty: port a holds b
}

// canvas is an SVG file that is being written.
type canvas struct {
	*picture
	chart.File
	wires   []wire              // the quickest first, and then the contents of ports
	at      []chart.Point       // of the ranks, then of the ports
	hubs    []chart.Point       // by rank: the center of its host's circle
	sizes   map[chart.Point]int // the ranks of a host, by its center
	radius  float64             // of the circle of a host
	half    chart.Point         // the distance of the farthest rank from the center
	center  chart.Point
	unnamed []string // ports that have no room for a name
}

// connect finds the wires: a link is drawn from the largest port that holds one of its ranks
// and not the other, since all that passes there does, to that of the other.
func (c *canvas) connect() {
	ports, of := c.g.Ports, make([][]int, c.g.Ranks) // by rank: its ports, the largest first
	order := numbers.Order(len(ports), func(i, k int) int { return len(ports[k].Ranks) - len(ports[i].Ranks) })
	for _, p := range order {
		for _, r := range ports[p].Ranks {
			of[r] = append(of[r], p)
		}
	}
	known := make(map[[2]int]int)
	join := func(a, b int, links ...topo.Link) {
		pair := [2]int{max(a, b), min(a, b)}
		k, ok := known[pair]
		if !ok {
			k = len(c.wires)
			known[pair], c.wires = k, append(c.wires, wire{a: pair[0], b: pair[1]})
		}
		c.wires[k].links = append(c.wires[k].links, links...)
	}
	outside := func(a, b int) int {
		for _, p := range of[a] {
			if !slices.Contains(of[b], p) {
				return c.g.Ranks + p
			}
		}
		return a
	}
	byRate := slices.Clone(c.g.Links)
	slices.SortStableFunc(byRate, func(a, b topo.Link) int { return cmp.Compare(b.GBytesPerSecond, a.GBytesPerSecond) })
	for _, l := range byRate {
		join(outside(l.A, l.B), outside(l.B, l.A), l)
	}
	for r, list := range of {
		for k, p := range list {
			inner := r
			if k+1 < len(list) {
				inner = c.g.Ranks + list[k+1]
			}
			join(c.g.Ranks+p, inner)
		}
	}
}

// arrange places the ranks, with the names of several hosts outside, and the ports.
func (c *canvas) arrange() {
	hosts, longest, most := c.g.ByHost(), 0.0, 0
	names := make([]string, len(hosts)) // one alone has none
	for i, ranks := range hosts {
		h := c.g.Host(ranks[0])
		switch {
		case len(hosts) > 1 && h < len(c.plan.Hosts) && c.plan.Hosts[h] != "":
			names[i] = c.plan.Hosts[h]
		case len(hosts) > 1:
			names[i] = fmt.Sprintf("host %d", h)
		}
		longest, most = max(longest, chart.Width(names[i], 13)), max(most, len(ranks))
	}
	c.radius = max(110, 4*nodeRadius*float64(most)/(2*math.Pi))
	ring := (c.radius + 5*nodeRadius) / math.Sin(math.Pi/float64(len(hosts)))
	switch {
	case len(hosts) == 1:
		c.radius, ring = max(190, c.radius), 0
	case most == 1:
		c.radius, ring = 0, max(190, ring-c.radius)
	}
	c.half = chart.At(176, 0) // so that names of small drawings have room
	c.at, c.hubs = make([]chart.Point, c.g.Ranks+len(c.g.Ports)), make([]chart.Point, c.g.Ranks)
	c.sizes = make(map[chart.Point]int)
	for i, ranks := range hosts {
		for k, r := range ranks {
			c.hubs[r] = chart.Point{}.Add(turned(angle(i, len(hosts))), ring)
			c.at[r] = c.hubs[r].Add(turned(angle(k, len(ranks))), c.radiusOf(ranks))
			c.half = chart.At(max(c.half.X, math.Abs(c.at[r].X)), max(c.half.Y, math.Abs(c.at[r].Y)))
		}
	}
	around := 3 * nodeRadius
	c.center = chart.At(margin+longest+around+c.half.X, 3*margin+around+c.half.Y)
	for r := range c.hubs {
		c.hubs[r], c.at[r] = c.hubs[r].Add(c.center, 1), c.at[r].Add(c.center, 1)
		c.sizes[c.hubs[r]]++
		c.Take(chart.Around(c.at[r], nodeRadius, nodeRadius))
	}
	for i, name := range names {
		turn := angle(i, len(hosts))
		c.label(name, 13, c.center.Add(turned(turn), ring+c.radiusOf(hosts[i])), turn, 2*nodeRadius)
	}
	c.Corner.Y = max(c.Corner.Y, c.center.Y+c.half.Y+around)
}

// radiusOf returns the radius of the circle of a host's ranks.
func (c *canvas) radiusOf(host []int) float64 {
	return float64(c.radius * float64(min(len(host)-1, 1)))
}

// angle returns the angle of the i-th of n on a circle, from the top.
func angle(i, n int) float64 { return float64(2*math.Pi*(float64(i)+0.5)/float64(n)) - math.Pi/2 }

// turned is the direction of an angle.
func turned(turn float64) chart.Point { return chart.At(math.Cos(turn), math.Sin(turn)) }

// label writes a name next to the drawing at a place, in a direction if there is room, else in another or farther away.
// It reports whether there is room.
func (c *canvas) label(name string, size float64, at chart.Point, turn, away float64) bool {
	for i := range 16 {
		out := turned(turn + float64(math.Pi/4*float64((i+1)/2)*float64(1-2*(i%2))))
		to := at.Add(out, away+float64(size*float64(i/8))).Add(chart.At(0, float64(0.35*size)), 1)
		anchor := []string{"end", "middle", "start"}[1+int(math.Round(out.X))]
		if c.Free(chart.TextBox(to, size, anchor, name)) {
			c.Text(to, size, anchor, chart.Ink, name)
			return true
		}
	}
	return false
}

// placePorts puts a port before the middle of its ranks, one that holds many farther in, one of a whole host next to
// that host, and aside where something stands there.
func (c *canvas) placePorts() {
	for i, p := range c.g.Ports {
		var middle chart.Point
		hub := c.hubs[p.Ranks[0]]
		for _, r := range p.Ranks {
			middle = middle.Add(c.at[r], 1/float64(len(p.Ranks)))
		}
		far := c.radius * max(0.25, 0.78-float64(0.24*math.Log2(float64(len(p.Ranks)))))
		if len(p.Ranks) >= c.sizes[hub] && hub != c.center {
			hub = c.center
			far = max(math.Hypot(middle.X-hub.X, middle.Y-hub.Y)-c.radius-3*nodeRadius, 2*nodeRadius)
		}
		for turn := math.Atan2(middle.Y-hub.Y, middle.X-hub.X); ; turn += 2 * portRadius / far {
			c.at[c.g.Ranks+i] = hub.Add(turned(turn), far)
			b := chart.Around(c.at[c.g.Ranks+i], portRadius, portRadius)
			if c.Free(b) || turn > 4*math.Pi {
				c.Take(b)
				break
			}
		}
	}
}

// drawWires draws the wires, the quickest last, in red where a load is more than the rate.
func (c *canvas) drawWires() {
	for i, w := range slices.Backward(c.wires) {
		switch {
		case len(w.links) == 0:
			c.Path(chart.Line, 1.2, "", "", c.at[w.a], c.at[w.b])
			continue
		case i >= maxLinks:
			continue
		}
		class, about := chart.Faint, ""
		for _, l := range w.links[:min(len(w.links), maxLines)] {
			load := c.links[c.index[topo.Pair(l.A, l.B)]]
			if load.Share() > 1.0001 {
				class = chart.Alarm
			}
			about += fmt.Sprintf("%d-%d: %s GB/s, %s us %s\n", min(l.A, l.B), max(l.A, l.B), c.load(load),
				figure(l.LatencyUs), l.Kind)
		}
		width := 1 + float64(7*w.links[0].GBytesPerSecond/c.wires[0].links[0].GBytesPerSecond)
		c.Path(class, width, "", strings.TrimSpace(about), c.at[w.a], c.at[w.b])
	}
}

// drawPorts draws the ports, and names those of several ranks where there is room.
func (c *canvas) drawPorts() {
	for i, p := range c.g.Ports {
		at, class, name := c.at[c.g.Ranks+i], chart.Ink, p.Name+": "+c.load(c.ports[i])+" GB/s"
		if c.ports[i].Share() > 1.0001 {
			class = chart.Alarm
		}
		c.Box(chart.Around(at, portRadius, portRadius), 2, class, 1.5, name)
		if len(p.Ranks) == 1 || !c.label(name, 11, at, math.Atan2(0, at.X-c.center.X), 14) {
			c.unnamed = append(c.unnamed, name)
		}
	}
}

// drawRanks draws the ranks at their places, and an overlay if it is not -1: arrows from each
// rank to its parent or the next, and a rim in the same color around the root.
func (c *canvas) drawRanks(at []chart.Point, radius float64, overlay int) {
	root, color := -1, chart.Color(max(overlay, 0))
	if overlay >= 0 {
		o := c.overlays[overlay]
		root = o.root
		fmt.Fprintf(c, `<marker id="arrow%d" orient="auto" markerWidth="5" markerHeight="4" refX="5" refY="2">`, overlay)
		fmt.Fprintf(c, `<path d="M0 0L5 2L0 4Z" class="%s" fill="currentColor"/></marker>`+"\n", color)
		for v, next := range o.next {
			if next < 0 {
				continue
			}
			from, to := at[v], at[next]
			rim := radius / math.Hypot(to.X-from.X, to.Y-from.Y)
			c.Path(color, 2, fmt.Sprintf(` marker-end="url(#arrow%d)"`, overlay), o.caption,
				from.Add(to.Add(from, -1), rim), to.Add(from.Add(to, -1), rim))
		}
	}
	for r := range c.g.Ranks {
		class, rim, size := chart.Ink, 1.0, math.Ceil(radius*0.8)
		if r == root {
			class, rim = color, 3
		}
		c.Box(chart.Around(at[r], radius, radius), radius, class, rim, "")
		c.Text(at[r].Add(chart.At(0, 0.36*size), 1), size, "middle", chart.Ink, fmt.Sprint(r))
	}
}

// drawSmall draws an overlay by itself on a small copy of the graph, in rows below it.
func (c *canvas) drawSmall(overlay int, caption string) {
	side := (c.center.X - margin) / columns // half of its width
	scale := (side - 2*smallNode) / c.half.X
	high := float64(c.half.Y*scale) + 2*smallNode
	top := chart.At(margin+float64(side*float64(2*(overlay%columns)+1)), c.center.Y+c.half.Y+4*lineStep)
	top = top.Add(chart.At(0, 2*(high+lineStep)), float64(overlay/columns))
	origin := top.Add(chart.At(0, lineStep+high), 1).Add(c.center, -scale)
	fmt.Fprintf(c, `<use href="#graph" transform="translate(%.1f %.1f) scale(%.4f)"/>`+"\n", origin.X, origin.Y, scale)
	at := make([]chart.Point, c.g.Ranks)
	for r := range at {
		at[r] = origin.Add(c.at[r], scale)
	}
	c.drawRanks(at, smallNode, overlay)
	for i, line := range numbers.Wrapped(caption, 20) {
		c.Text(top.Add(chart.At(0, 14*float64(i)), 1), 11, "middle", chart.Ink, line)
	}
}

// legend explains the signs of the picture, from a place on, and names the omitted parts.
func (c *canvas) legend(at chart.Point) {
	write := func(class, text string) {
		for _, part := range numbers.Wrapped(text, 64) {
			c.Text(at, 12, "start", class, part)
			at.Y += lineStep
		}
	}
	for _, w := range c.plan.Warnings {
		write(chart.Alarm, w)
	}
	if over := len(c.wires) - maxLinks; over > 0 {
		write(chart.Alarm, fmt.Sprintf("%d slower links are not drawn", over))
	}
	write(chart.Ink, numbers.Count(c.g.Ranks, "rank")+", "+numbers.Count(len(c.g.Links), "link"))
	if len(c.overlays) == 1 {
		write(chart.Ink, c.overlays[0].caption)
	}
	for _, name := range c.unnamed[:min(len(c.unnamed), maxLines)] {
		write(chart.Ink, name)
	}
	if more := max(len(c.overlays)-maxLines, 0) + max(len(c.unnamed)-maxLines, 0); more > 0 {
		write(chart.Ink, fmt.Sprintf("and %d more trees, rings and ports", more))
	}
	if len(c.overlays) > 0 {
		write(chart.Ink, "load / rate of a link: under the mouse")
	}
	for _, n := range c.plan.Notes {
		write(chart.Ink, n)
	}
}
