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
// first. Without trees and rings it writes the lines of p alone, and for an empty Plan
// g's own text form.
func Text(g *topo.Graph, p Plan) string {
	x := newPicture(g, p)
	if len(x.strands) == 0 && p.Title == "" {
		return g.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", x.title())
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "note: %s\n", w)
	}
	for i, s := range x.strands {
		fmt.Fprintf(&b, "\n%s\n", s.caption())
		if i < len(p.Trees) {
			x.writeTree(&b, p.Trees[i])
		} else {
			x.writeRing(&b, p.Rings[i-len(p.Trees)])
		}
	}
	x.writeLoads(&b)
	for _, e := range x.absent {
		fmt.Fprintf(&b, "the graph has no link %d-%d\n", e[0], e[1])
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "%s\n", n)
	}
	return b.String()
}

func (x *picture) writeTree(b *strings.Builder, t topo.Tree) {
	if len(t.Parent) > maxDrawn {
		fmt.Fprintf(b, "%d: root of a tree of %d ranks\n", t.Root, len(t.Parent))
		return
	}
	if b.Len() > maxText {
		fmt.Fprintf(b, "%d: root of a tree of %d ranks, left out here for its length; the JSON form has it\n", t.Root, len(t.Parent))
		return
	}
	t.Draw(b, func(rank int) string {
		if i, ok := x.index[key(rank, t.Parent[rank])]; ok {
			return fmt.Sprintf("  %s GB/s", figure(x.wires[i].GBytesPerSecond))
		}
		return ""
	})
}

func (x *picture) writeRing(b *strings.Builder, order []int) {
	for i, v := range order {
		if i > 0 {
			b.WriteString(" - ")
		}
		if i == maxDrawn {
			fmt.Fprintf(b, "... %d ranks", len(order))
			break
		}
		fmt.Fprint(b, v)
	}
	if len(order) > 0 {
		fmt.Fprintf(b, " - %d\n", order[0])
	}
}

// writeLoads writes the tables of links and ports.
func (x *picture) writeLoads(b *strings.Builder) {
	links := x.busiest(len(x.wires), func(i int) topo.Load { return x.wires[i].Load })
	x.writeRows(b, "link", links, func(i int) (string, topo.Load) {
		w := x.wires[i]
		return fmt.Sprintf("%d-%d", w.A, w.B), w.Load
	})
	ports := x.busiest(len(x.ports), func(i int) topo.Load { return x.ports[i] })
	x.writeRows(b, "port", ports, func(i int) (string, topo.Load) { return x.g.Ports[i].Name, x.ports[i] })
	if idle := len(x.wires) - len(links); idle > 0 && len(links) > 0 {
		fmt.Fprintf(b, "%d of %d links carry nothing\n", idle, len(x.wires))
	}
}

// writeRows writes one table, if it has rows: with rates the load and the part
// of the capacity, otherwise the uses per GB/s.
func (x *picture) writeRows(b *strings.Builder, what string, rows []int, of func(int) (string, topo.Load)) {
	if len(rows) == 0 {
		return
	}
	width := len(what)
	for _, i := range rows[:min(len(rows), maxRows)] {
		name, _ := of(i)
		width = max(width, len(name))
	}
	last := "uses per GB/s"
	if x.rated() {
		last = "load GB/s  share"
	}
	fmt.Fprintf(b, "\n%-*s  %8s  %4s  %s\n", width, what, "GB/s", "uses", last)
	for k, i := range rows {
		if k == maxRows {
			fmt.Fprintf(b, "and %d more, less busy\n", len(rows)-maxRows)
			break
		}
		name, l := of(i)
		fmt.Fprintf(b, "%-*s  %8s  %4d", width, name, figure(l.Capacity), l.Uses)
		if x.rated() {
			fmt.Fprintf(b, "  %9s  %4.0f%%\n", figure(l.Rate), 100*l.Share())
		} else {
			fmt.Fprintf(b, "  %13s\n", figure(l.Congestion()))
		}
	}
}
