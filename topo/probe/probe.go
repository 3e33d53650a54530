// Package probe is not for users: it measures a topo.Graph and keeps it for later jobs. Measure times the links between
// ranks of one host, over the shared memory that the collectives will use; Sampling selects the pairs that are
// measured. Network times the connections between hosts; package topo/network turns the findings of all hosts into the
// network between them.
//
// It makes no decisions about trees. Package collective calls it; it imports
// topo, topo/network and transport.
package probe

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Pair is one rank's measurement of its link to another.
type Pair struct {
	A               int     `json:"a"`
	B               int     `json:"b"`                 // A < B
	LatencyUs       float64 `json:"latency_us"`        // one way, microseconds
	GBytesPerSecond float64 `json:"gbytes_per_second"` // from A to B
}

// Findings is the findings of the ranks of a host about its links. Its graph follows from them.
type Findings struct {
	Places []Place `json:"places"` // by rank
	Pairs  []Pair  `json:"pairs"`  // that were measured, some of every class
}

// Graph returns the graph of the host. It is valid where every class has a pair with possible figures.
func (f *Findings) Graph() *topo.Graph {
	return Graph(len(f.Places), NewSampling(f.Places).Fill(f.Pairs))
}

// IsUniform reports whether the graph is one of equal links that is valid, without making it.
func (f *Findings) IsUniform() bool {
	s := NewSampling(f.Places)
	if len(s.sizes) != 1 {
		return false
	}
	for p := range s.Fill(f.Pairs) { // as good as all
		p.A, p.B = 0, 1
		return Graph(2, slices.Values([]Pair{p})).Validate() == nil
	}
	return false
}

// The limits of figures of shared memory that are possible: far beyond those of slow machines. Ranks that get no cores
// at the same time, as other work has them, measure worse ones.
const (
	credibleRate    = 1.0 // GB/s, at least
	credibleLatency = 100 // us, at most
)

// Credible reports whether the medians of every class of pairs are possible for shared memory, where ranks have that
// many cores: one, on which they take turns, makes anything possible. Where they are not, other work of the machine was
// measured rather than the links.
func (f *Findings) Credible(cores int) bool {
	s := NewSampling(f.Places)
	for class, p := range s.medians(f.Pairs) {
		possible := p.GBytesPerSecond >= credibleRate && p.LatencyUs <= credibleLatency
		if cores > 1 && s.sizes[class] > 0 && !possible {
			return false
		}
	}
	return true
}

// Add adds measurements. Of two of the same pair the better figures count, as a disturbance makes them only worse.
func (f *Findings) Add(pairs []Pair) {
	for _, p := range pairs {
		i := slices.IndexFunc(f.Pairs, func(q Pair) bool { return p.A == q.A && p.B == q.B })
		if i < 0 {
			f.Pairs = append(f.Pairs, p)
			continue
		}
		f.Pairs[i] = better(f.Pairs[i], p)
	}
}

// better returns the better figures of two measurements of a pair.
func better(p, q Pair) Pair {
	p.LatencyUs, p.GBytesPerSecond = min(p.LatencyUs, q.LatencyUs), max(p.GBytesPerSecond, q.GBytesPerSecond)
	return p
}

// Slots and SlotBytes are the shape of the links that a probe runs over.
const (
	Slots     = 4
	SlotBytes = 16 << 10
)

// leadOf returns the rank that gives out the turns of pairs: the lowest of them.
func leadOf(pairs [][2]int) int {
	lead := math.MaxInt
	for _, p := range pairs {
		lead = min(lead, p[0])
	}
	return lead
}

// budget bounds the time of all measurements together, ranks waiting included.
const budget = 100 * time.Millisecond

// Pin ties the calling goroutine to the k-th usable core until restore is
// called.
type Pin func(k int) (restore func(), err error)

// Measure measures the links of pairs of ranks, the lower one first, and returns one Pair for
// each of which this rank is the lower. All ranks of the pairs call it together. Pairs
// take turns, which the lowest rank gives out: those of one turn have no rank in common and are no more
// than the cores can run at once, so that they do not disturb each other.
//
// pin ties the calling goroutine to the k-th usable core until restore is
// called; nil leaves the ranks where the kernel puts them. While a pair
// measures, its ranks are tied to two cores where there are two: two ranks that
// happen to share a core look a hundred times farther apart than they are.
//
// ep must have links of lane 0, which open as they are needed, and be unused. Measure returns the fault of
// ep, a transport.Fault, when a rank fails meanwhile, and stops when ctx ends.
func Measure(
	ctx context.Context, ep transport.Endpoint, rank, size, cores int, pairs [][2]int, pin Pin,
) ([]Pair, error) {
	m := newMeter(ctx, ep, 0, rank, size, streamBytes)
	turns := schedule(max(1, cores/2), pairs)
	each := budget / time.Duration(max(1, passes*len(turns)))
	best := make(map[int]Pair) // by the other rank
	m.pin, m.lead = pin, leadOf(pairs)
	for range passes {
		for _, turn := range turns {
			if err := m.turn(turn, each, best); err != nil {
				return nil, err
			}
		}
	}
	return slices.SortedFunc(maps.Values(best), func(p, q Pair) int { return p.B - q.B }), nil
}

// passes is the number of times a pair is measured. A disturbance of a link for a moment affects one of them only; the
// better figures count.
const passes = 2

// turn lets the pairs of one turn measure: the lead signals the lower rank of each to begin, and receives its signal at
// the end.
func (m *meter) turn(pairs [][2]int, within time.Duration, best map[int]Pair) error {
	if err := m.hand(pairs, 0); err != nil {
		return fmt.Errorf("probe: rank %d: %w", m.rank, err)
	}
	for i, p := range pairs {
		if p[0] != m.rank && p[1] != m.rank {
			continue
		}
		core := 2 * i
		if m.rank == p[1] {
			core++
		}
		got, err := m.measure(core, p[0], p[1], within)
		if err != nil {
			return fmt.Errorf("probe: rank %d with rank %d: %w", m.rank, p[0]+p[1]-m.rank, err)
		}
		if m.rank != p[0] {
			continue
		}
		if before, ok := best[p[1]]; ok {
			got = better(got, before)
		}
		best[p[1]] = got
	}
	if err := m.hand(pairs, 1); err != nil {
		return fmt.Errorf("probe: rank %d: %w", m.rank, err)
	}
	return nil
}

// hand sends a word between the lead and the lower rank of each pair, from end 0 of their link to end 1 or back: 0 is
// the lead, which signals that rank to measure, and receives its signal that it has.
func (m *meter) hand(pairs [][2]int, from int) (err error) {
	for _, p := range pairs {
		ends := [2]int{m.lead, p[0]}
		switch {
		case err != nil || p[0] == m.lead:
		case m.rank == ends[from]:
			err = m.send(ends[1-from], nil)
		case m.rank == ends[1-from]:
			_, err = m.receive(ends[from], 0)
		}
	}
	return err
}

// schedule deals pairs of ranks to turns of at most width pairs without a common rank.
func schedule(width int, pairs [][2]int) (turns [][][2]int) {
	for _, p := range pairs {
		free := func(turn [][2]int) bool {
			return len(turn) < width && !slices.ContainsFunc(turn, func(q [2]int) bool {
				return p[0] == q[0] || p[0] == q[1] || p[1] == q[0] || p[1] == q[1]
			})
		}
		at := slices.IndexFunc(turns, free)
		if at < 0 {
			at, turns = len(turns), append(turns, nil)
		}
		turns[at] = append(turns[at], p)
	}
	return turns
}

// noise is the ratio between the best and the worst measurement of links below which the difference reflects the moment
// more than the machine: on a busy two-core machine the same link differs by this much from run to run.
const noise = 2.5

// Graph makes the graph of one host from the measurements of all ranks. Figures that lie within noise of each other
// become their median, so that one graph, and one set of trees, comes out of every run on the same machine.
func Graph(size int, pairs iter.Seq[Pair]) *topo.Graph {
	g := &topo.Graph{Name: "measured", Ranks: size, Hosts: make([]int, size)}
	g.Links = make([]topo.Link, 0, size*(size-1)/2)
	l := topo.Link{Kind: "shm", Source: topo.Measured}
	for p := range pairs { // of 256 ranks 32640
		l.A, l.B, l.GBytesPerSecond, l.LatencyUs = p.A, p.B, p.GBytesPerSecond, p.LatencyUs
		g.Links = append(g.Links, l)
	}
	topo.LevelLinks(g.Links, noise)
	return g
}
