package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/treerun/treerun/topo"
)

// legendLine is one line of the legend: a sample, if any, and words.
type legendLine struct {
	text   string
	strand int     // sample: a strand; -1 none
	rate   float64 // sample: a link of this rate; 0 none
	strong bool    // a heading
}

// The most strands, rates and ports that the legend tells.
const (
	maxStrands = 24
	maxRates   = 6
	maxPorts   = 12
)

// legend says what stands for what.
func (c *canvas) legend() []legendLine {
	var list []legendLine
	say := func(strong bool, format string, a ...any) {
		list = append(list, legendLine{text: fmt.Sprintf(format, a...), strand: -1, strong: strong})
	}
	say(true, "%s, %s%s", count(c.g.Ranks, "rank"), count(len(c.g.Links), "link"), c.source())
	for i, s := range c.strands {
		if i == maxStrands {
			say(false, "and %d more", len(c.strands)-maxStrands)
			break
		}
		list = append(list, legendLine{text: s.caption(), strand: i})
	}
	if total := c.total(); total > 0 && len(c.strands) > 1 {
		say(false, "together %s GB/s", figure(total))
	}
	if len(c.g.Links) > 0 {
		say(true, "links by rate, each way")
		list = append(list, c.rateLines()...)
	}
	if text := c.latencies(); text != "" {
		say(false, "%s", text)
	}
	if len(c.g.Ports) > 0 {
		say(true, "ports")
		for _, text := range c.portLines() {
			say(false, "%s", text)
		}
	}
	switch {
	case len(c.strands) == 0 || len(c.g.Links) == 0:
	case c.rated():
		say(true, "at a link: load / rate in GB/s")
	default:
		say(true, "at a link: uses / rate in GB/s")
	}
	for _, e := range c.absent {
		say(false, "no link %d-%d", e[0], e[1])
	}
	for _, n := range c.plan.Notes {
		for _, part := range wrapped(n, 46) {
			say(false, "%s", part)
		}
	}
	return list
}

// source says that links are measured.
func (c *canvas) source() string {
	measured := 0
	for _, w := range c.wires {
		if w.Source == topo.Measured {
			measured++
		}
	}
	switch measured {
	case 0:
		return ""
	case len(c.wires):
		return ", measured"
	}
	return fmt.Sprintf(", %d of them measured", measured)
}

// latencies tells the least and the largest latency of the links.
func (c *canvas) latencies() string {
	least, most := math.Inf(1), 0.0
	for _, w := range c.wires {
		if w.LatencyUs > 0 {
			least, most = min(least, w.LatencyUs), max(most, w.LatencyUs)
		}
	}
	switch {
	case most == 0:
		return ""
	case least == most:
		return fmt.Sprintf("latency %s us", figure(most))
	}
	return fmt.Sprintf("latency %s to %s us", figure(least), figure(most))
}

// portLines tells the ports, the busiest first, those that have the same to say
// in one line.
func (c *canvas) portLines() []string {
	order := c.busiest(len(c.ports), func(i int) topo.Load { return c.ports[i] })
	for i := range c.ports {
		if c.ports[i].Uses == 0 {
			order = append(order, i)
		}
	}
	var names, loads []string
	var count []int
	for _, i := range order {
		load := strings.TrimPrefix(c.portLoad(i), "port ")
		if k := slices.Index(loads, load); k >= 0 {
			count[k]++
			continue
		}
		names, loads, count = append(names, c.g.Ports[i].Name), append(loads, load), append(count, 1)
	}
	var lines []string
	for k, name := range names {
		if k == maxPorts {
			return append(lines, fmt.Sprintf("and %d other loads", len(names)-maxPorts))
		}
		if count[k] > 1 {
			name += fmt.Sprintf(" and %d more", count[k]-1)
		}
		lines = append(lines, name+": "+loads[k])
	}
	return lines
}

// total is the sum of the strands' rates, 0 when they are not known.
func (c *canvas) total() float64 {
	sum := 0.0
	for _, s := range c.strands {
		sum += s.rate
	}
	return sum
}

// rateLines shows a sample of a link for every rate, quickest first.
func (c *canvas) rateLines() []legendLine {
	type group struct {
		rate  float64
		kind  string
		count int
	}
	var groups []group
	for _, w := range c.wires {
		i := slices.IndexFunc(groups, func(g group) bool { return g.rate == w.GBytesPerSecond && g.kind == w.Kind })
		if i < 0 {
			groups = append(groups, group{rate: w.GBytesPerSecond, kind: w.Kind})
			i = len(groups) - 1
		}
		groups[i].count++
		if len(groups) > 4*maxRates {
			return []legendLine{{text: "up to " + figure(c.widest) + " GB/s", rate: c.widest, strand: -1}}
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		if a.rate > b.rate {
			return -1
		}
		return 1
	})
	var list []legendLine
	for i, g := range groups {
		if i == maxRates {
			list = append(list, legendLine{text: fmt.Sprintf("and %d other rates", len(groups)-maxRates), strand: -1})
			break
		}
		text := fmt.Sprintf("%s GB/s, %d links", figure(g.rate), g.count)
		if g.kind != "" {
			text = fmt.Sprintf("%s GB/s, %d links, %s", figure(g.rate), g.count, g.kind)
		}
		list = append(list, legendLine{text: text, rate: g.rate, strand: -1})
	}
	return list
}

// wrapped cuts s into lines of about so many characters.
func wrapped(s string, width int) []string {
	var lines []string
	for len(s) > width {
		cut := width
		for cut > 0 && s[cut] != ' ' {
			cut--
		}
		if cut == 0 {
			break
		}
		lines = append(lines, s[:cut])
		s = s[cut+1:]
	}
	return append(lines, s)
}

const legendStep = 21.0

func legendHeight(lines []legendLine) float64 { return legendStep * float64(len(lines)+2) }

func legendWidth(lines []legendLine) float64 {
	most := 20
	for _, l := range lines {
		most = max(most, utf8.RuneCountInString(l.text))
	}
	return 6.7*float64(most) + 70
}

func (c *canvas) writeLegend(at point, lines []legendLine) {
	for _, l := range lines {
		words := at
		if l.strand >= 0 || l.rate > 0 {
			words.x += 44
		}
		from, to := at.add(point{0, -4}), at.add(point{34, -4})
		switch {
		case l.strand >= 0:
			c.line(from, to, 3.5, colour(l.strand), dash(l.strand), "")
		case l.rate > 0:
			shade := "#9fb3c8"
			if len(c.strands) > 0 {
				shade = "#d5dae0"
			}
			c.line(from, to, min(c.thickness(l.rate), 16), shade, "", "")
		}
		if l.strong {
			at.y += 6
			words.y += 6
			c.text(words, 13, "start", "#111111", l.text)
		} else {
			c.text(words, 12, "start", "#333333", l.text)
		}
		at.y += legendStep
	}
}
