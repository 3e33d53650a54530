package draw

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treerun/treerun/topo"
)

// palette is Okabe and Ito's, which people of all kinds of colour vision can
// tell apart, with a wine red for the yellow, which is hard to see on white.
var palette = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#882255"}

func colour(overlay int) string { return palette[overlay%len(palette)] }

// host is the name of a host.
func (p *Plan) host(h int) string {
	if h < len(p.Hosts) && p.Hosts[h] != "" {
		return p.Hosts[h]
	}
	return fmt.Sprintf("host %d", h)
}

// DOT writes g and p as a Graphviz file, for `dot -Kneato -Tsvg` and the like:
// a cluster per host, links by rate, every tree and ring in a colour of its
// own with arrows from child to parent. Warnings stand below the title.
func DOT(g *topo.Graph, p Plan) string {
	x := newPicture(g, p)
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n", x.title)
	fmt.Fprintf(&b, "  label=%q; labelloc=t; overlap=false; splines=true; outputorder=edgesfirst;\n",
		strings.Join(append([]string{x.title}, p.Warnings...), "\n"))
	b.WriteString("  node [shape=circle, style=filled, fillcolor=white, fontname=\"Helvetica\"];\n")
	b.WriteString("  edge [fontname=\"Helvetica\", fontsize=10];\n")
	hosts := g.ByHost()
	for i, h := range slices.Sorted(maps.Keys(hosts)) {
		indent := "  "
		if len(hosts) > 1 {
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%q; color=\"#888888\";\n", i, p.host(h))
			indent = "    "
		}
		for _, r := range hosts[h] {
			fmt.Fprintf(&b, "%s%d", indent, r)
			if k := x.rootOf(r); k >= 0 {
				fmt.Fprintf(&b, " [color=%q, penwidth=3]", colour(k))
			}
			b.WriteString(";\n")
		}
		if len(hosts) > 1 {
			b.WriteString("  }\n")
		}
	}
	quickest := 0.0
	for _, l := range g.Links {
		quickest = max(quickest, l.GBytesPerSecond)
	}
	for i, l := range g.Links {
		pair := topo.Pair(l.A, l.B)
		width := 1 + 4*l.GBytesPerSecond/quickest
		fmt.Fprintf(&b, "  %d -> %d [dir=none, color=\"#bbbbbb\", penwidth=%.1f, label=%q];\n",
			pair[0], pair[1], width, x.load(x.links[i])+" GB/s")
		for _, l := range x.lanes[pair] {
			fmt.Fprintf(&b, "  %d -> %d [color=%q, penwidth=2, tooltip=%q];\n",
				l.from, l.to, colour(l.overlay), x.overlays[l.overlay].caption)
		}
	}
	b.WriteString("}\n")
	return b.String()
}
