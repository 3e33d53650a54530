package sim

import (
	"fmt"

	"github.com/treerun/treerun/topo"
)

// resource is one way of a link, a port or an adapter.
type resource struct {
	perByte float64 // microseconds
	fixed   float64 // microseconds per chunk
	free    float64 // when the last chunk that came will be through
	busy    float64 // in all
	bytes   int64   // in all
}

// take lets a chunk through that is there at now, and returns when its first
// and last byte are through.
func (r *resource) take(now float64, bytes int64) (first, last float64) {
	first = max(now, r.free)
	d := r.fixed + float64(bytes)*r.perByte
	r.free = first + d
	r.busy += d
	r.bytes += bytes
	return first, r.free
}

// route is the way from one rank to another.
type route struct {
	src, dst int
	latency  float64
	via      []int32 // resources, the link first
}

// network is a Graph with what its links cost on a Machine.
type network struct {
	g         *topo.Graph
	m         *Machine
	links     map[[2]int]int32 // by ranks, lower first: index into g.Links
	portsOf   [][]int32        // by rank
	resources []resource
	ports     [][2]int32         // by port: resources out and in
	adapters  map[adapter]int32  // resources
	routes    map[[2]int32]int32 // by source and destination: index into all
	all       []route
}

type adapter struct {
	rank int
	kind string
	in   bool
}

func newNetwork(g *topo.Graph, m *Machine) *network {
	w := &network{g: g, m: m, links: make(map[[2]int]int32, len(g.Links)), portsOf: make([][]int32, g.Ranks),
		adapters: make(map[adapter]int32), routes: make(map[[2]int32]int32)}
	for i, l := range g.Links {
		w.links[[2]int{min(l.A, l.B), max(l.A, l.B)}] = int32(i)
	}
	for i, p := range g.Ports {
		rate := usPerByte(p.GBytesPerSecond)
		w.ports = append(w.ports, [2]int32{w.add(rate, 0), w.add(rate, 0)})
		for _, r := range p.Ranks {
			w.portsOf[r] = append(w.portsOf[r], int32(i))
		}
	}
	return w
}

func (w *network) add(perByte, fixed float64) int32 {
	w.resources = append(w.resources, resource{perByte: perByte, fixed: fixed})
	return int32(len(w.resources) - 1)
}

// route returns the index of the route from src to dst.
func (w *network) route(src, dst int) (int32, error) {
	key := [2]int32{int32(src), int32(dst)}
	if i, ok := w.routes[key]; ok {
		return i, nil
	}
	at, ok := w.links[[2]int{min(src, dst), max(src, dst)}]
	if !ok {
		return 0, fmt.Errorf("the graph has no link between ranks %d and %d", src, dst)
	}
	l := w.g.Links[at]
	rate := l.GBytesPerSecond
	if w.m.RateFactor > 0 {
		rate *= w.m.RateFactor
	}
	r := route{src: src, dst: dst, latency: l.LatencyUs, via: []int32{w.add(usPerByte(rate), w.m.MessageUs)}}
	if us, ok := w.m.LatencyUs[l.Kind]; ok {
		r.latency = us
	}
	if gbs, ok := w.m.AdapterGBs[l.Kind]; ok {
		r.via = append(r.via, w.adapter(src, l.Kind, false, gbs), w.adapter(dst, l.Kind, true, gbs))
	}
	for _, p := range w.portsOf[src] {
		if !holds(w.portsOf[dst], p) {
			r.via = append(r.via, w.ports[p][0])
		}
	}
	for _, p := range w.portsOf[dst] {
		if !holds(w.portsOf[src], p) {
			r.via = append(r.via, w.ports[p][1])
		}
	}
	i := int32(len(w.all))
	w.all = append(w.all, r)
	w.routes[key] = i
	return i, nil
}

// inPlace reports whether dst reads what src sends where src wrote it.
func (w *network) inPlace(src, dst int32) bool {
	return w.m.InPlace && (len(w.g.Hosts) == 0 || w.g.Hosts[src] == w.g.Hosts[dst])
}

func (w *network) adapter(rank int, kind string, in bool, gbs float64) int32 {
	key := adapter{rank, kind, in}
	i, ok := w.adapters[key]
	if !ok {
		i = w.add(usPerByte(gbs), 0)
		w.adapters[key] = i
	}
	return i
}

func holds(ports []int32, p int32) bool {
	for _, q := range ports {
		if q == p {
			return true
		}
	}
	return false
}
