package sim

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// program is a Plan with its FIFOs looked up, for messages of one size. Operations that
// follow each other with the same plan and size share it.
type program struct {
	plan   *plan.Plan
	tracks []track
	fifos  []fifo
	ofRank [][]int32 // tracks with anything to do

	batches []batch // of all ranks
}

// track is a plan.Track.
type track struct {
	rank   int32
	chunks int32
	chunk  int64 // bytes
	last   int64 // bytes of the last chunk
	steps  []step

	enqueueUs float64 // of the host, for all steps of the rank and a chunk
}

// step is a plan.Step. FIFOs are numbered within the program, -1 for none.
type step struct {
	work    work
	again   bool // sends the value that the step before has written, to one more rank
	joins   bool // continues the step before: in one pass with it, or in one launch
	in, out int32
	hands   bool    // it sends over a socket: the kernel takes the bytes and sends them
	sockets int32   // ends of sockets that it moves a chunk through
	perByte float64 // microseconds to read a received byte, 0 where that is part of sending it

	level    int     // of a device's step: above those of the steps that it waits for
	batch    int32   // of a device's step that joins no other, else -1
	arrays   int     // of the part of a launch that begins with a device's step, 0 for none
	enqueued float64 // when the host has enqueued it for the first chunk, in microseconds after the launch
}

// work is the work of a step on its bytes in addition to sending them.
type work uint8

const (
	nothing work = iota
	reduces
	copies
)

// fifo is one link of a lane.
type fifo struct {
	route            int32
	sender, receiver int32 // tracks, -1 for none
}

// newProgram looks up the links of p on w for a message of the given number of bytes, all parts together.
func newProgram(p *plan.Plan, bytes int64, w *network) (*program, error) {
	pr := &program{plan: p, ofRank: make([][]int32, p.Size)}
	part := bytes
	if p.Kind.HasParts() {
		part = (bytes + int64(p.Size) - 1) / int64(p.Size)
	}
	chunks := plan.Chunks{Min: max(w.m.MinChunk, plan.Quantum)}
	for i, share := range p.Shares() {
		d := share.Span(part, 1, chunks, w.m.SlotBytes)
		t := track{chunks: int32(d.Chunks), chunk: int64(d.Grain), last: int64(d.Bytes - (d.Chunks-1)*d.Grain)}
		if err := pr.addLane(i, t, w); err != nil {
			return nil, fmt.Errorf("sim: plan %s, lane %d: %w", p.Name, i, err)
		}
	}
	if w.m.CallUs > 0 {
		for _, tracks := range pr.ofRank {
			pr.enqueue(tracks, w.m.CallUs)
		}
	}
	return pr, nil
}

// addLane adds the tracks of a lane, which are like t.
func (pr *program) addLane(lane int, t track, w *network) error {
	l := &pr.plan.Lanes[lane]
	if t.chunks == 0 {
		return nil
	}
	fifos, ends := l.FIFOs()
	firstFIFO, firstTrack := int32(len(pr.fifos)), int32(len(pr.tracks))
	numbered := func(i, first int32) int32 {
		if i < 0 {
			return i
		}
		return first + i
	}
	for _, f := range fifos {
		r, err := w.route(int(f.Src), int(f.Dst))
		if err != nil {
			return err
		}
		pr.fifos = append(pr.fifos, fifo{r, numbered(f.Sender, firstTrack), numbered(f.Receiver, firstTrack)})
	}
	for k, from := range l.Tracks {
		e := ends[k]
		var fused []bool // the steps that are part of the fused step that begins before them
		var arrays []int
		if w.m.CallUs > 0 {
			fused, arrays = partsOf(pr.plan.Fuse(lane, k), len(from.Steps))
		}
		t.rank, t.steps = int32(from.Rank), make([]step, len(from.Steps))
		pr.ofRank[t.rank] = append(pr.ofRank[t.rank], int32(len(pr.tracks)))
		for i, s := range from.Steps {
			b := step{in: numbered(e[i].In, firstFIFO), out: numbered(e[i].Out, firstFIFO), batch: -1}
			switch {
			case s.Op.Reduces():
				b.work = reduces
			case s.Op.Writes():
				b.work = copies
			}
			b.joins = i > 0 && w.m.InPlace && joins(from.Steps[i-1], s)
			if fused != nil {
				b.joins, b.arrays = b.joins || fused[i], arrays[i]
			}
			if a := max(i-1, 0); b.joins && t.steps[a].work == copies {
				t.steps[a].work = nothing // the sum begins with the received value
			}
			if b.joins && b.work == copies {
				b.work = nothing
			}
			if b.in >= 0 {
				if w.inPlace(s.From, t.rank) {
					b.perByte = w.resources[w.all[pr.fifos[b.in].route].via[0]].perByte
				}
				if w.sockets(s.From, t.rank) {
					b.sockets++
				}
			}
			if b.out >= 0 {
				b.again = i > 0 && pr.plan.Kind.SendsAgain(from.Steps[i-1], s) &&
					w.inPlace(t.rank, s.To) && w.inPlace(t.rank, from.Steps[i-1].To) &&
					len(w.all[pr.fifos[b.out].route].via) == 1 // a port counts what every receiver reads
				if w.sockets(t.rank, s.To) {
					b.sockets++
					b.hands = true
				}
			}
			t.steps[i] = b
		}
		pr.tracks = append(pr.tracks, t)
	}
	if w.m.CallUs > 0 {
		pr.setLevels(firstTrack)
	}
	return nil
}

// joins reports whether step b adds to the value that step a, before it, has
// stored and not sent, or puts it where it belongs.
func joins(a, b plan.Step) bool {
	switch {
	case a.Op.Sends():
		return false
	case b.Op == plan.LocalReduce:
		return a.Dst == b.Dst
	}
	return b.Op.Reduces() && a.Dst == b.Src || b.Op == plan.Copy && a.Dst == plan.Tmp && b.Src == plan.Tmp
}

// resource is one way of a link or a port.
type resource struct {
	perByte float64 // microseconds
	free    float64 // when the last chunk that came will be through
	busy    float64 // in all
	bytes   int64   // in all
}

// carry lets a chunk through that is there at now and takes load bytes for each of its own, and returns when its first
// and last byte are through.
func (r *resource) carry(now float64, bytes int64, load float64) (first, last float64) {
	first = max(now, r.free)
	d := float64(float64(bytes) * load * r.perByte)
	r.free = first + d
	r.busy += d
	r.bytes += bytes
	return first, r.free
}

// route is the way from one rank to another.
type route struct {
	src, dst int
	latency  float64
	via      []int32 // resources, the links first
	links    int     // their number
	portLoad float64 // the bytes that a byte takes of a port
}

// load returns the bytes that one byte takes of the resource at a place of via.
func (r *route) load(at int) float64 {
	if at < r.links {
		return 1
	}
	return r.portLoad
}

// network is a Graph with the costs of its links on a Machine.
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

// clear leaves nothing on the way. m differs from the Machine before in its chunks at most.
func (w *network) clear(m *Machine) {
	w.m = m
	for i := range w.resources {
		w.resources[i] = resource{perByte: w.resources[i].perByte}
	}
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
		r.portLoad = max(r.portLoad, w.g.Links[hop.Link].PortLoad())
	}
	r.links = len(r.via)
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

// inPlace reports whether dst reads the chunks of src where src wrote them.
func (w *network) inPlace(src, dst int32) bool { return w.m.InPlace && w.oneHost(src, dst) }
