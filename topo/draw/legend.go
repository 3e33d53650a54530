package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// The most strands, rates and ports that the legend tells.
const (
	maxStrands = 24
	maxRates   = 6
	maxPorts   = 12
)

// legendLine is one line of the legend: a sample, if it has a width, and words.
type legendLine struct {
	text   string
	width  float64
	colour string
	dash   string
	strong bool // a heading
}

// legend says what stands for what.
func (c *canvas) legend() []legendLine {
	var list []legendLine
	say := func(format string, a ...any) { list = append(list, legendLine{text: fmt.Sprintf(format, a...)}) }
	head := func(text string) { list = append(list, legendLine{text: text, strong: true}) }
	more := func(n, most int, what string) {
		if n > most {
			say("and %d more %s", n-most, what)
		}
	}
	measured, fast, slow := 0, math.Inf(1), 0.0
	for _, w := range c.wires {
		if w.Source == topo.Measured {
			measured++
		}
		fast, slow = min(fast, w.LatencyUs), max(slow, w.LatencyUs)
	}
	size := numbers.Count(c.g.Ranks, "rank") + ", " + numbers.Count(len(c.g.Links), "link")
	if measured > 0 {
		size += fmt.Sprintf(", %d of them measured", measured)
	}
	head(size)
	total := 0.0
	for i, s := range c.strands {
		if total += s.rate; i < maxStrands {
			list = append(list, legendLine{text: s.caption(), width: 2.4, colour: colour(i), dash: dash(i)})
		}
	}
	more(len(c.strands), maxStrands, "trees and rings")
	if total > 0 && len(c.strands) > 1 {
		say("together %s GB/s", figure(total))
	}
	if len(c.g.Links) > 0 {
		head("links by rate, each way")
		rates := c.rateLines()
		list = append(list, rates[:min(len(rates), maxRates)]...)
		more(len(rates), maxRates, "rates")
		if slow > 0 {
			say("latency %s to %s us", figure(fast), figure(slow))
		}
	}
	if len(c.ports) > 0 {
		head("ports")
		order := c.busiest(len(c.ports), func(i int) topo.Load { return c.ports[i] })
		for i := range c.ports {
			if c.ports[i].Uses == 0 {
				order = append(order, i)
			}
		}
		for _, i := range order[:min(len(order), maxPorts)] {
			say("%s: %s GB/s", c.g.Ports[i].Name, c.load(c.ports[i]))
		}
		more(len(order), maxPorts, "ports")
	}
	switch {
	case len(c.strands) == 0 || len(c.g.Links) == 0:
	case c.rated():
		head("at a link: load / rate in GB/s")
	default:
		head("at a link: uses / rate in GB/s")
	}
	for _, e := range c.absent {
		say("no link %d-%d", e[0], e[1])
	}
	for _, n := range c.plan.Notes {
		for _, part := range wrapped(n, 56) {
			say("%s", part)
		}
	}
	return list
}

// rateLines shows a sample of a link for every rate and kind, quickest first.
func (c *canvas) rateLines() []legendLine {
	var list []legendLine
	var counts []int
	for _, w := range c.byRate() {
		text := figure(w.GBytesPerSecond) + " GB/s, "
		if w.Kind != "" {
			text += w.Kind + ", "
		}
		i := slices.IndexFunc(list, func(l legendLine) bool { return l.text == text })
		if i < 0 {
			i = len(list)
			width, shade := c.link(w.GBytesPerSecond)
			list = append(list, legendLine{text: text, width: width, colour: shade, dash: "none"})
			counts = append(counts, 0)
		}
		counts[i]++
	}
	for i, n := range counts {
		list[i].text += numbers.Count(n, "link")
	}
	return list
}

// wrapped cuts s between words into lines of at most so many bytes.
func wrapped(s string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		last := len(lines) - 1
		if last < 0 || len(lines[last])+1+len(word) > width {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}

func legendWidth(lines []legendLine) float64 {
	most := 20
	for _, l := range lines {
		most = max(most, utf8.RuneCountInString(l.text))
	}
	return 6.7*float64(most) + 70
}

func (c *canvas) writeLegend(at point, lines []legendLine) {
	for _, l := range lines {
		words, size := at, 12.0
		if l.width > 0 {
			words.x += 44
			c.line(at.add(point{0, -4}, 1), at.add(point{34, -4}, 1), l.width, l.colour, l.dash, "")
		}
		if l.strong {
			at.y += 6
			words.y, size = at.y, 13
		}
		c.text(words, size, "start", black, l.text)
		at.y += lineStep
	}
}
