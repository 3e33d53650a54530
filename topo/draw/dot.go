package draw

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/topo"
)

// DOT writes g and p as a Graphviz file, for `dot -Kneato -Tsvg` and the like:
// a cluster per host, links by rate, every tree and ring in a colour of its
// own with arrows from child to parent.
func DOT(g *topo.Graph, p Plan) string {
	x := newPicture(g, p)
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n", x.title)
	fmt.Fprintf(&b, "  label=%q; labelloc=t; overlap=false; splines=true; outputorder=edgesfirst;\n", x.title)
	b.WriteString("  node [shape=circle, style=filled, fillcolor=white, fontname=\"Helvetica\"];\n")
	b.WriteString("  edge [fontname=\"Helvetica\", fontsize=10];\n")
	hosts := x.hosts()
	for i, h := range hosts {
		indent := "  "
		if len(hosts) > 1 {
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%q; color=\"#888888\";\n", i, h.name)
			indent = "    "
		}
		for _, r := range h.ranks {
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
	for i, l := range g.Links {
		pair := topo.Pair(l.A, l.B)
		width := 1 + 4*l.GBytesPerSecond/x.byRate[0].GBytesPerSecond
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
