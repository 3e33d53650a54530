package topo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/numbers"
)

// maxTable is the number of ranks up to which a Graph is written as a table of all pairs, and
// maxLines that of the lines on links of more, and on ports.
const (
	maxTable = 16
	maxLines = 64
)

// String writes g for people: the ranks of each host, and the text of Describe.
func (g *Graph) String() string {
	var b strings.Builder
	sources := g.sources()
	if sources == ", "+g.Name { // the name is enough
		sources = ""
	}
	fmt.Fprintf(&b, "%s: %s, %s%s\n", cmp.Or(g.Name, "graph"), count(g.Ranks, "rank"), count(len(g.Links), "link"),
		sources)
	hosts := g.ByHost()
	for _, ranks := range hosts {
		if len(hosts) > 1 {
			fmt.Fprintf(&b, "host %d: %s %s\n", g.Host(ranks[0]), numbers.Plural(len(ranks), "rank"), RankList(ranks))
		}
	}
	var names []string
	for r := range g.Ranks {
		names = append(names, strconv.Itoa(r))
	}
	g.Describe(&b, names)
	return b.String()
}

// count writes a number of things.
func count(n int, what string) string {
	if n == 0 {
		return "no " + what + "s"
	}
	return numbers.Count(n, what)
}

// sources lists the sources of the links' figures: measured before estimated before declared.
func (g *Graph) sources() string {
	var list []string
	for _, s := range []Source{Measured, Estimated, Declared} {
		if slices.ContainsFunc(g.Links, func(l Link) bool { return l.Source == s }) {
			list = append(list, string(s))
		}
	}
	unknown := slices.ContainsFunc(g.Links, func(l Link) bool { return l.Source == "" })
	if len(list) == 0 || len(list) == 1 && unknown {
		return ""
	}
	return ", " + strings.Join(list, " and ")
}

// Describe writes a table of the rates between all pairs of ranks, which go by the given names, and what
// else is known of these; above 16 ranks how many links have which rate. Then come the ports.
func (g *Graph) Describe(b *strings.Builder, names []string) {
	switch {
	case len(g.Links) == 0:
	case g.Ranks > maxTable:
		g.writeRates(b)
	default:
		writeTable(b, "GB/s", g.Rates(), names)
		if slices.ContainsFunc(g.Links, func(l Link) bool { return l.Declared > 0 }) {
			b.WriteString("declared, where it was measured\n")
			writeTable(b, "GB/s", g.matrix(func(l *Link) float64 { return l.Declared }), names)
		}
		if slices.ContainsFunc(g.Links, func(l Link) bool { return l.LatencyUs > 0 }) {
			writeTable(b, "us", g.matrix(func(l *Link) float64 { return l.LatencyUs }), names)
		}
	}
	g.writePortCosts(b)
	for i, p := range g.Ports {
		if i == maxLines {
			fmt.Fprintf(b, "and %d more ports\n", len(g.Ports)-i)
			break
		}
		name := cmp.Or(p.Name, "port")
		if len(p.Ranks) > 1 {
			name += " of ranks " + RankList(p.Ranks)
		}
		fmt.Fprintf(b, "%s: %.4g GB/s\n", name, p.GBytesPerSecond)
	}
}

// writePortCosts writes how many links take more of ports than their bytes.
func (g *Graph) writePortCosts(b *strings.Builder) {
	links := make(map[float64]int) // by cost
	for i := range g.Links {
		links[g.Links[i].PortLoad()]++
	}
	for _, cost := range slices.Sorted(maps.Keys(links)) {
		if cost != 1 {
			fmt.Fprintf(b, "%s: a byte takes %.4g of each port\n", numbers.Count(links[cost], "link"), cost)
		}
	}
}

// writeRates writes how many links have the same rate and kind, the slowest first.
func (g *Graph) writeRates(b *strings.Builder) {
	type class struct {
		rate float64
		kind string
	}
	links := make(map[class]int)
	for _, l := range g.Links {
		links[class{l.GBytesPerSecond, l.Kind}]++
	}
	order := func(x, y class) int { return cmp.Or(cmp.Compare(x.rate, y.rate), cmp.Compare(x.kind, y.kind)) }
	for i, c := range slices.SortedFunc(maps.Keys(links), order) {
		if i == maxLines {
			fmt.Fprintf(b, "and %d more rates\n", len(links)-i)
			break
		}
		line := fmt.Sprintf("%s of %.4g GB/s %s", numbers.Count(links[c], "link"), c.rate, c.kind)
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
}

// writeTable writes the pairs of m under a corner label, a dot where there is
// nothing.
func writeTable(b *strings.Builder, corner string, m Matrix, names []string) {
	wide, digits := 6, 4
	if len(names) > 10 { // or few terminals would have room
		wide, digits = 4, 3
	}
	for _, name := range names {
		wide = max(wide, utf8.RuneCountInString(name))
	}
	fmt.Fprintf(b, "%*s", wide, corner)
	for _, name := range names {
		fmt.Fprintf(b, " %*s", wide, name)
	}
	for r, name := range names {
		fmt.Fprintf(b, "\n%*s", wide, name)
		for c := range names {
			text := "."
			if v := m.At(r, c); v > 0 {
				text = fmt.Sprintf("%.*g", max(digits, len(strconv.Itoa(int(v)))), v)
			}
			fmt.Fprintf(b, " %*s", wide, text)
		}
	}
	b.WriteByte('\n')
}

// Draw draws t with the root on top, a line per rank, with more about each rank
// but the root behind it; "(3)" behind a rank is the round in which it sends to its parent.
// Children stand in the order in which they are reduced.
func (t Tree) Draw(b *strings.Builder, more func(rank int) string) {
	fmt.Fprintf(b, "%d\n", t.Root)
	children := t.Children()
	var below func(v int, indent string)
	below = func(v int, indent string) {
		for i, c := range children[v] {
			branch, deeper := "├─ ", "│  "
			if i == len(children[v])-1 {
				branch, deeper = "└─ ", "   "
			}
			fmt.Fprintf(b, "%s%s%d", indent, branch, c)
			if t.Round != nil {
				fmt.Fprintf(b, " (%d)", t.Round[c])
			}
			b.WriteString(more(c) + "\n")
			below(c, indent+deeper)
		}
	}
	below(t.Root, "")
	if t.Note != "" {
		fmt.Fprintf(b, "note: %s\n", t.Note)
	}
}
