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
	fmt.Fprintf(&b, "digraph %s {\n", quote(x.title()))
	fmt.Fprintf(&b, "  label=%s; labelloc=t; overlap=false; splines=true; outputorder=edgesfirst;\n", quote(x.title()))
	b.WriteString("  node [shape=circle, style=filled, fillcolor=white, fontname=\"Helvetica\"];\n")
	b.WriteString("  edge [fontname=\"Helvetica\", fontsize=10];\n")
	for _, h := range hostsOf(g) {
		inside := ""
		if len(h.ranks) < g.Ranks {
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s; color=\"#888888\";\n", h.host, quote(x.hostName(h.host, 64)))
			inside = "  "
		}
		for _, r := range h.ranks {
			fmt.Fprintf(&b, "%s  %d", inside, r)
			if k := x.rootOf(r); k >= 0 {
				fmt.Fprintf(&b, " [color=%s, penwidth=3]", quote(colour(k)))
			}
			b.WriteString(";\n")
		}
		if inside != "" {
			b.WriteString("  }\n")
		}
	}
	widest := x.widest()
	for _, w := range x.wires {
		fmt.Fprintf(&b, "  %d -> %d [dir=none, color=\"#bbbbbb\", penwidth=%.1f, label=%s];\n",
			w.A, w.B, 1+4*w.GBytesPerSecond/widest, quote(x.load(w.Load)))
		for _, l := range w.lanes {
			fmt.Fprintf(&b, "  %d -> %d [color=%s, penwidth=2, tooltip=%s];\n",
				l.from, l.to, quote(colour(l.strand)), quote(x.strands[l.strand].caption()))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// quote writes s as a string of the DOT language.
func quote(s string) string {
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, `"`, `\"`)
	return `"` + strings.ReplaceAll(s, "\n", `\n`) + `"`
}

// rootOf returns the first strand of which rank is the root, -1 when there is
// none.
func (x *picture) rootOf(rank int) int {
	for i, s := range x.strands {
		if s.root == rank {
			return i
		}
	}
	return -1
}

// widest is the rate of the quickest link.
func (x *picture) widest() float64 {
	most := 0.0
	for _, w := range x.wires {
		most = max(most, w.GBytesPerSecond)
	}
	return most
}
