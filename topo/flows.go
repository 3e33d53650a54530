package topo

import (
	"cmp"
	"slices"
)

// Flows is what moves over a graph: every link can be used in two directions, called arcs, each of which takes of rows,
// which have capacities. The rows are the links that can be the limit, and then the ports.
type Flows struct {
	Near  [][]Arc    // by rank: the arcs away from it, by the rank they lead to
	Takes [][]Taking // by arc: what a rate of 1 takes of rows
	Rows  []Row
	Caps  []float64 // by row
}

// Arc is one direction of a link.
type Arc struct {
	To int
	ID int32 // 2*link, or 2*link+1 for the direction from B to A
}

// Row is a link or a port, in one direction or both.
type Row struct {
	Link, Port int  // index in the graph; -1 for the other kind
	Reverse    bool // one way only: the direction from the link's B to its A, or into the port
}

// Taking is what a rate of 1 takes of a row: 1 of a link, and the link's PortLoad of a port.
type Taking struct {
	Row  int32
	Load float64
}

// Flows returns the flows of g. Links and ports have a row for each direction where they are directed, and else one for
// both.
func (g *Graph) Flows(directed bool) *Flows {
	f := &Flows{Near: make([][]Arc, g.Ranks), Takes: make([][]Taking, 2*len(g.Links))}
	crossed := g.Crossed()
	for i, l := range g.Links {
		f.Near[l.A] = append(f.Near[l.A], Arc{l.B, int32(2 * i)})
		f.Near[l.B] = append(f.Near[l.B], Arc{l.A, int32(2*i + 1)})
		// The ports that a link crosses carry its load too: no narrower than one of them, it is never the limit. Of hosts
		// with a port each, that is nearly every link.
		narrower := func(p int) bool { return g.Ports[p].GBytesPerSecond <= l.GBytesPerSecond*l.PortLoad() }
		if !slices.ContainsFunc(crossed[i], narrower) {
			there, back := f.add(l.GBytesPerSecond, Row{Link: i, Port: -1}, directed)
			f.Takes[2*i], f.Takes[2*i+1] = []Taking{{there, 1}}, []Taking{{back, 1}}
		}
	}
	for _, list := range f.Near {
		slices.SortFunc(list, func(a, b Arc) int { return cmp.Compare(a.To, b.To) })
	}
	for i, p := range g.Ports {
		out, in := f.add(p.GBytesPerSecond, Row{Link: -1, Port: i}, directed)
		for k, l := range g.Links {
			if !slices.Contains(crossed[k], i) {
				continue
			}
			there, back := Taking{out, l.PortLoad()}, Taking{in, l.PortLoad()}
			if slices.Contains(p.Ranks, l.B) {
				there.Row, back.Row = in, out
			}
			f.Takes[2*k], f.Takes[2*k+1] = append(f.Takes[2*k], there), append(f.Takes[2*k+1], back)
		}
	}
	return f
}

// add adds the rows of a link or a port.
func (f *Flows) add(capacity float64, r Row, directed bool) (there, back int32) {
	there = int32(len(f.Rows))
	f.Rows, f.Caps = append(f.Rows, r), append(f.Caps, capacity)
	if !directed {
		return there, there
	}
	r.Reverse = true
	f.Rows, f.Caps = append(f.Rows, r), append(f.Caps, capacity)
	return there, there + 1
}
