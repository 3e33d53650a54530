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

// maxTable is the number of ranks up to which a Graph is written as a table of all pairs.
const maxTable = 16

// String writes g for people: the ranks of each host, a table of the rates
// (and, where known, of the latencies) between all pairs, or above 16 ranks a
// list of the links, and the ports.
func (g *Graph) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s%s\n", cmp.Or(g.Name, "graph"), count(g.Ranks, "rank"), count(len(g.Links), "link"),
		g.sources())
	hosts := g.ByHost()
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		if len(hosts) > 1 {
			fmt.Fprintf(&b, "host %d: ranks %s\n", h, RankList(hosts[h]))
		}
	}
	g.WriteTables(&b, nil)
	if g.Ranks > maxTable {
		for _, l := range g.Links {
			fmt.Fprintf(&b, "%d-%d  %.4g GB/s", l.A, l.B, l.GBytesPerSecond)
			if l.LatencyUs > 0 {
				fmt.Fprintf(&b, "  %.4g us", l.LatencyUs)
			}
			if l.Kind != "" {
				fmt.Fprintf(&b, "  %s", l.Kind)
			}
			if l.Declared > 0 {
				fmt.Fprintf(&b, "  declared %.4g GB/s", l.Declared)
			}
			b.WriteByte('\n')
		}
	}
	for _, p := range g.Ports {
		fmt.Fprintf(&b, "port %q of ranks %s: %.4g GB/s\n", p.Name, RankList(p.Ranks), p.GBytesPerSecond)
	}
	return b.String()
}

// count writes a number of things.
func count(n int, what string) string {
	if n == 0 {
		return "no " + what + "s"
	}
	return numbers.Count(n, what)
}

// sources says how the links are known: measured before estimated before
// declared.
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

// WriteTables writes the rates between all pairs, and what else is known of them, of a graph
// of few ranks. names are those of the ranks; nil: they go by their numbers.
func (g *Graph) WriteTables(b *strings.Builder, names []string) {
	if len(g.Links) == 0 || g.Ranks > maxTable {
		return
	}
	if names == nil {
		for r := range g.Ranks {
			names = append(names, strconv.Itoa(r))
		}
	}
	writeTable(b, "GB/s", g.Rates(), names)
	if slices.ContainsFunc(g.Links, func(l Link) bool { return l.Declared > 0 }) {
		b.WriteString("declared, where it was measured\n")
		writeTable(b, "GB/s", g.matrix(func(l *Link) float64 { return l.Declared }), names)
	}
	if slices.ContainsFunc(g.Links, func(l Link) bool { return l.LatencyUs > 0 }) {
		writeTable(b, "us", g.matrix(func(l *Link) float64 { return l.LatencyUs }), names)
	}
}

// writeTable writes the pairs of m under a corner label, a dot where there is
// nothing.
func writeTable(b *strings.Builder, corner string, m Matrix, names []string) {
	wide := 6
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
				text = fmt.Sprintf("%.4g", v)
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
