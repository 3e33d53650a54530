package draw

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/topo"
)

// The most ranks of a tree that is drawn, the most rows of a table, and the
// bytes of text after which no more trees are drawn: a thousand deep trees would
// be gigabytes.
const (
	maxDrawn = 1 << 10
	maxRows  = 64
	maxText  = 4 << 20
)

// Text draws the trees and rings of p in characters, every rank with the rate
// of its link, and writes a table of the links and ports they use, the busiest
// first. Without trees and rings it writes the lines of p alone.
func Text(g *topo.Graph, p Plan) string {
	x := newPicture(g, p)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", x.title)
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "note: %s\n", w)
	}
	for i, o := range x.overlays {
		fmt.Fprintf(&b, "\n%s\n", o.caption)
		if i < len(p.Trees) {
			x.writeTree(&b, p.Trees[i])
		} else {
			writeRing(&b, p.Rings[i-len(p.Trees)])
		}
	}
	links, ports := x.busiest(x.links), x.busiest(x.ports)
	x.writeLoads(&b, "link", x.links, links, func(i int) string {
		pair := topo.Pair(g.Links[i].A, g.Links[i].B)
		return fmt.Sprintf("%d-%d", pair[0], pair[1])
	})
	x.writeLoads(&b, "port", x.ports, ports, func(i int) string { return g.Ports[i].Name })
	if idle := len(x.links) - len(links); idle > 0 && len(links) > 0 {
		fmt.Fprintf(&b, "%d of %d links carry nothing\n", idle, len(x.links))
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "%s\n", n)
	}
	return b.String()
}

func (x *picture) writeTree(b *strings.Builder, t topo.Tree) {
	why := ""
	switch {
	case len(t.Parent) > maxDrawn:
	case b.Len() > maxText:
		why = ", left out here for its length; the JSON form has it"
	default:
		t.Draw(b, func(rank int) string {
			if i, ok := x.index[topo.Pair(rank, t.Parent[rank])]; ok {
				return fmt.Sprintf("  %s GB/s", figure(x.g.Links[i].GBytesPerSecond))
			}
			return ""
		})
		return
	}
	fmt.Fprintf(b, "%d: root of a tree of %d ranks%s\n", t.Root, len(t.Parent), why)
}

func writeRing(b *strings.Builder, order []int) {
	for _, v := range order[:min(len(order), maxDrawn)] {
		fmt.Fprintf(b, "%d - ", v)
	}
	if len(order) > maxDrawn {
		fmt.Fprintf(b, "... %d ranks - ", len(order))
	}
	fmt.Fprintf(b, "%d\n", order[0])
}

// writeLoads writes one table, if it has rows: the load and the part of the capacity.
func (x *picture) writeLoads(b *strings.Builder, what string, loads []topo.Load, rows []int, name func(int) string) {
	if len(rows) == 0 {
		return
	}
	shown := rows[:min(len(rows), maxRows)]
	width := len(what)
	for _, i := range shown {
		width = max(width, len(name(i)))
	}
	fmt.Fprintf(b, "\n%-*s  %8s  %4s  load GB/s  share\n", width, what, "GB/s", "uses")
	for _, i := range shown {
		l := loads[i]
		fmt.Fprintf(b, "%-*s  %8s  %4d  %9s  %4.0f%%\n", width, name(i), figure(l.Capacity), l.Uses, figure(l.Rate),
			100*l.Share())
	}
	if more := len(rows) - len(shown); more > 0 {
		fmt.Fprintf(b, "and %d more, less busy\n", more)
	}
}
