package sim

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// resource is one way of a link or a port.
type resource struct {
	perByte float64 // microseconds
	free    float64 // when the last chunk that came will be through
	busy    float64 // in all
	bytes   int64   // in all
}

// take lets a chunk through that is there at now, and returns when its first
// and last byte are through.
func (r *resource) take(now float64, bytes int64) (first, last float64) {
	first = max(now, r.free)
	d := float64(float64(bytes) * r.perByte)
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
	ways      *topo.Ways
	wires     map[topo.Hop]int32 // resources of the links that ranks share
	portsOf   [][]int32          // by rank
	resources []resource
	ports     [][2]int32         // by port: resources out and in
	routes    map[[2]int32]int32 // by source and destination: index into all
	all       []route
}

func newNetwork(g *topo.Graph, ways *topo.Ways, m *Machine) *network {
	w := &network{g: g, m: m, ways: ways, wires: make(map[topo.Hop]int32), portsOf: make([][]int32, g.Ranks),
		routes: make(map[[2]int32]int32)}
	for i, p := range g.Ports {
		rate := usPerByte(p.GBytesPerSecond)
		w.ports = append(w.ports, [2]int32{w.add(rate), w.add(rate)})
		for _, r := range p.Ranks {
			w.portsOf[r] = append(w.portsOf[r], int32(i))
		}
	}
	return w
}

func (w *network) add(perByte float64) int32 {
	w.resources = append(w.resources, resource{perByte: perByte})
	return int32(len(w.resources) - 1)
}

// route returns the index of the route from src to dst.
func (w *network) route(src, dst int) (int32, error) {
	key := [2]int32{int32(src), int32(dst)}
	if i, ok := w.routes[key]; ok {
		return i, nil
	}
	hops := w.ways.Route(src, dst)
	if hops == nil {
		return 0, fmt.Errorf("the graph has no link between ranks %d and %d", src, dst)
	}
	r := route{src: src, dst: dst}
	for _, hop := range hops {
		w.addHop(&r, hop)
	}
	if w.sockets(int32(src), int32(dst)) {
		r.latency = max(0, r.latency-2*w.m.SocketUs)
	}
	for _, p := range w.portsOf[src] {
		if !slices.Contains(w.portsOf[dst], p) {
			r.via = append(r.via, w.ports[p][0])
		}
	}
	for _, p := range w.portsOf[dst] {
		if !slices.Contains(w.portsOf[src], p) {
			r.via = append(r.via, w.ports[p][1])
		}
	}
	i := int32(len(w.all))
	w.all = append(w.all, r)
	w.routes[key] = i
	return i, nil
}

// addHop adds a link to the route of a pair of ranks: a resource of the pair's
// own, or where it is the wire of two hosts that of all their ranks.
func (w *network) addHop(r *route, hop topo.Hop) {
	l := &w.g.Links[hop.Link]
	r.latency += l.LatencyUs
	if l.Kind != topo.TCP || w.oneHost(int32(l.A), int32(l.B)) {
		r.via = append(r.via, w.add(usPerByte(l.GBytesPerSecond)))
		return
	}
	i, ok := w.wires[hop]
	if !ok {
		i = w.add(usPerByte(l.GBytesPerSecond))
		w.wires[hop] = i
	}
	r.via = append(r.via, i)
}

// oneHost reports whether two ranks are on the same host.
func (w *network) oneHost(a, b int32) bool { return w.g.Host(int(a)) == w.g.Host(int(b)) }

// sockets reports whether src and dst talk over sockets.
func (w *network) sockets(src, dst int32) bool {
	return (w.m.SocketUs > 0 || w.m.SocketGBs > 0) && !w.oneHost(src, dst)
}

// inPlace reports whether dst reads what src sends where src wrote it.
func (w *network) inPlace(src, dst int32) bool { return w.m.InPlace && w.oneHost(src, dst) }
