package planner

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// meter adds up what strands put on the links and the ports of a graph. Setting
// it up takes the time of the graph, a strand then only that of its links.
type meter struct {
	g     *topo.Graph
	ways  *topo.Ways
	ports [][]int // by rank: the ports whose set has it

	// GB/s of the flows carried so far: of links from A to B and from B to A, of
	// ports into the set and out of it; and which of them are above zero.
	there, back, in, out []float64
	links, crossed       []int
}

func newMeter(g *topo.Graph, ways *topo.Ways) *meter {
	m := &meter{g: g, ways: ways, ports: make([][]int, g.Ranks),
		there: make([]float64, len(g.Links)), back: make([]float64, len(g.Links)),
		in: make([]float64, len(g.Ports)), out: make([]float64, len(g.Ports))}
	for i, p := range g.Ports {
		for _, r := range p.Ranks {
			m.ports[r] = append(m.ports[r], i)
		}
	}
	return m
}

// reset forgets all flows.
func (m *meter) reset() {
	for _, i := range m.links {
		m.there[i], m.back[i] = 0, 0
	}
	for _, p := range m.crossed {
		m.in[p], m.out[p] = 0, 0
	}
	m.links, m.crossed = m.links[:0], m.crossed[:0]
}

// carry adds a flow: to the link of its ranks, or the wires of their hosts. Where there
// is no way it is passed over.
func (m *meter) carry(from, to int, amount float64) {
	way := m.ways.Route(from, to)
	for _, hop := range way {
		i := hop.Link
		if m.there[i] == 0 && m.back[i] == 0 {
			m.links = append(m.links, i)
		}
		if hop.Back {
			m.back[i] += amount
		} else {
			m.there[i] += amount
		}
	}
	if way == nil {
		return
	}
	for _, p := range m.ports[from] {
		if !slices.Contains(m.ports[to], p) {
			m.cross(p)
			m.out[p] += amount
		}
	}
	for _, p := range m.ports[to] {
		if !slices.Contains(m.ports[from], p) {
			m.cross(p)
			m.in[p] += amount
		}
	}
}

func (m *meter) cross(p int) {
	if m.in[p] == 0 && m.out[p] == 0 {
		m.crossed = append(m.crossed, p)
	}
}

// fullest returns how full the fullest link or port is, in one direction, when
// strand i carries rates[i] GB/s of message: above 1 is too much.
func (m *meter) fullest(strands []Strand, rates []float64, kind plan.Kind, root int) float64 {
	m.reset()
	for i := range strands {
		for _, f := range flows(&strands[i], kind, root) {
			if f.amount > 0 {
				m.carry(f.from, f.to, rates[i]*f.amount)
			}
		}
	}
	most := 0.0
	for _, i := range m.links {
		most = max(most, max(m.there[i], m.back[i])/m.g.Links[i].GBytesPerSecond)
	}
	for _, p := range m.crossed {
		most = max(most, max(m.in[p], m.out[p])/m.g.Ports[p].GBytesPerSecond)
	}
	return most
}

// fit gives the strands rates in the proportion of weights, as large as the
// links and ports let them be together; nil weights are equal.
func (m *meter) fit(strands []Strand, weights []float64, kind plan.Kind, root int) {
	if weights == nil {
		weights = slices.Repeat([]float64{1}, len(strands))
	}
	full := m.fullest(strands, weights, kind, root)
	for i := range strands {
		if full > 0 { // one rank sends nothing
			strands[i].Rate = weights[i] / full
		}
	}
}

// hopLatency is the latency of the way between two ranks in microseconds.
type hopLatency func(from, to int) float64

func (m *meter) latency(from, to int) (us float64) {
	for _, hop := range m.ways.Route(from, to) {
		us += m.g.Links[hop.Link].LatencyUs
	}
	return us
}

// measure sets what does not depend on the other strands: the rate alone and
// the latency of the operation.
func (m *meter) measure(strands []Strand, kind plan.Kind, root int) {
	for i := range strands {
		s := &strands[i]
		s.Alone = 1
		if full := m.fullest(strands[i:i+1], []float64{1}, kind, root); full > 0 {
			s.Alone = 1 / full
		}
		if s.Ring != nil {
			s.LatencyUs = ringLatency(s.Ring, kind, root, m.latency)
			continue
		}
		depth, diameter := treeLatencies(s.Tree, m.latency)
		s.LatencyUs = depth
		switch {
		case kind == plan.AllReduce:
			s.LatencyUs *= 2
		case kind.HasParts() && !s.OfPart:
			s.LatencyUs = diameter
		}
	}
}
