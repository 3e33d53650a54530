package topo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/numbers"
)

// Limits of a Graph, checked before any of it is used as a size.
const (
	MaxRanks = 1 << 16
	MaxLinks = 1 << 21
	MaxPorts = 1 << 16

	MinRate    = 1e-9 // of a link or a port, GB/s: a byte per second
	MaxRate    = 1e9
	MinLatency = 1e-9 // of a link that does not leave it at 0, microseconds
	MaxLatency = 1e9  // a thousand seconds

	MaxPortCost = 1000

	maxLabel = 256 // characters of a name
)

// UniformGraph is the complete graph of n ranks on one host with equal links of 1 GB/s: the assumption for ranks that
// were not measured.
func UniformGraph(n int) *Graph {
	g := &Graph{Name: fmt.Sprintf("uniform%d", n), Ranks: n}
	for a := range n {
		for b := a + 1; b < n; b++ {
			g.Links = append(g.Links, Link{A: a, B: b, GBytesPerSecond: 1, Source: Declared})
		}
	}
	return g
}

// IsUniform reports whether g IsEven and has no ports: every numbering of its ranks is
// as good as any other.
func (g *Graph) IsUniform() bool { return len(g.Ports) == 0 && g.IsEven() }

// IsEven reports whether g is complete with links of one rate, latency and port cost, all ranks on one
// host, and has either no ports or one of every rank, all of one rate.
func (g *Graph) IsEven() bool {
	n := g.Ranks
	of := make(map[int]bool)
	for _, p := range g.Ports {
		if len(p.Ranks) != 1 || p.GBytesPerSecond != g.Ports[0].GBytesPerSecond {
			return false
		}
		of[p.Ranks[0]] = true
	}
	for i := range g.Links {
		l, first := &g.Links[i], &g.Links[0]
		if l.GBytesPerSecond != first.GBytesPerSecond || l.LatencyUs != first.LatencyUs || l.PortLoad() != first.PortLoad() {
			return false
		}
	}
	return len(of) == len(g.Ports) && (len(of) == 0 || len(of) == n) && g.isComplete() &&
		!slices.ContainsFunc(g.Hosts, func(h int) bool { return h != g.Hosts[0] })
}

// Validate reports the first element of g that cannot be used, by name and
// with the reason. A graph that is not connected is named by its components.
func (g *Graph) Validate() error {
	if g.Ranks < 1 || g.Ranks > MaxRanks {
		return fmt.Errorf("graph of %d ranks, want 1..%d", g.Ranks, MaxRanks)
	}
	if len(g.Links) > MaxLinks || len(g.Ports) > MaxPorts {
		return fmt.Errorf("graph of %d links and %d ports, want at most %d and %d", len(g.Links), len(g.Ports),
			MaxLinks, MaxPorts)
	}
	if err := checkLabel(g.Name); err != nil {
		return fmt.Errorf("the graph's name %w", err)
	}
	if len(g.Hosts) != 0 && len(g.Hosts) != g.Ranks {
		return fmt.Errorf("hosts has %d entries for %d ranks: want one for every rank, or no hosts at all",
			len(g.Hosts), g.Ranks)
	}
	for r, h := range g.Hosts {
		if h < 0 || h >= MaxRanks {
			return fmt.Errorf("rank %d is on host %d, want 0..%d", r, h, MaxRanks-1)
		}
	}
	if err := g.validateLinks(); err != nil {
		return err
	}
	if err := g.validatePorts(); err != nil {
		return err
	}
	if g.isComplete() {
		return nil
	}
	if parts := g.Components(); len(parts) > 1 {
		return &DisconnectedError{Components: parts}
	}
	return nil
}

// isComplete reports whether all pairs of ranks have a link. None may stand twice.
func (g *Graph) isComplete() bool { return len(g.Links) == g.Ranks*(g.Ranks-1)/2 }

func (g *Graph) validateLinks() error {
	for i := range g.Links {
		l := &g.Links[i]
		err := l.validateEnds(g.Ranks)
		if err == nil && (i == 0 || !l.alike(&g.Links[i-1])) {
			err = l.validate()
		}
		if err != nil {
			return fmt.Errorf("links[%d] (%d-%d)%w", i, l.A, l.B, err)
		}
	}
	if g.isCanonical() { // none stands twice: no map is needed
		return nil
	}
	seen := make(map[[2]int32]int, len(g.Links))
	for i, l := range g.Links {
		if k, twice := seen[Pair(l.A, l.B)]; twice {
			return fmt.Errorf("links[%d] (%d-%d) is given twice: it is links[%d] already; give one link with the sum of "+
				"the rates", i, l.A, l.B, k)
		}
		seen[Pair(l.A, l.B)] = i
	}
	return nil
}

// isCanonical reports whether each link of g has its lower rank first, and comes after the links of lower ranks.
func (g *Graph) isCanonical() bool {
	for i := range g.Links {
		l, last := &g.Links[i], &g.Links[max(i-1, 0)]
		if l.A >= l.B || i > 0 && (l.A < last.A || l.A == last.A && l.B <= last.B) {
			return false
		}
	}
	return true
}

// comparePairs compares the ranks of two links, the lower one of each first.
func comparePairs(x, y Link) int {
	return cmp.Or(min(x.A, x.B)-min(y.A, y.B), max(x.A, x.B)-max(y.A, y.B))
}

// Pair is two ranks, the lower one first.
func Pair(a, b int) [2]int32 { return [2]int32{int32(min(a, b)), int32(max(a, b))} }

// LinkIndex returns, for every pair of ranks with a link, its place in g.Links.
func (g *Graph) LinkIndex() map[[2]int32]int {
	index := make(map[[2]int32]int, len(g.Links))
	for i, l := range g.Links {
		index[Pair(l.A, l.B)] = i
	}
	return index
}

// validateEnds returns the fault of the ranks of l in a graph of the given number of ranks, to stand behind the link's
// name.
func (l *Link) validateEnds(ranks int) error {
	switch {
	case l.A < 0 || l.A >= ranks:
		return fmt.Errorf(": rank %d is unknown, want 0..%d", l.A, ranks-1)
	case l.B < 0 || l.B >= ranks:
		return fmt.Errorf(": rank %d is unknown, want 0..%d", l.B, ranks-1)
	case l.A == l.B:
		return fmt.Errorf(" joins a rank with itself")
	}
	return nil
}

// alike reports whether two links differ in their ranks at most.
func (l *Link) alike(k *Link) bool {
	return l.GBytesPerSecond == k.GBytesPerSecond && l.LatencyUs == k.LatencyUs && l.Kind == k.Kind &&
		l.Source == k.Source && l.Declared == k.Declared && l.PortCost == k.PortCost
}

// validate returns the fault of the rest of l.
func (l *Link) validate() error {
	if err := checkRate(l.GBytesPerSecond); err != nil {
		return fmt.Errorf(": %w", err)
	}
	if !(l.LatencyUs == 0 || l.LatencyUs >= MinLatency && l.LatencyUs <= MaxLatency) {
		return fmt.Errorf(": latency_us is %v, want 0 or %g..%g microseconds", l.LatencyUs, MinLatency, MaxLatency)
	}
	if l.Declared != 0 {
		if err := checkRate(l.Declared); err != nil {
			return fmt.Errorf(": declared_%w", err)
		}
	}
	if !(l.PortCost == 0 || l.PortCost >= 1 && l.PortCost <= MaxPortCost) {
		return fmt.Errorf(": port_cost is %v, want 1..%d", l.PortCost, MaxPortCost)
	}
	if err := checkLabel(l.Kind); err != nil {
		return fmt.Errorf(": kind %w", err)
	}
	if l.Source != "" && l.Source != Declared && l.Source != Estimated && l.Source != Measured {
		return fmt.Errorf(": source %q, want %q, %q or %q", l.Source, Declared, Estimated, Measured)
	}
	return nil
}

func (g *Graph) validatePorts() error {
	names := make(map[string]bool, len(g.Ports))
	for i, p := range g.Ports {
		name := fmt.Sprintf("ports[%d] (%q)", i, p.Name)
		if err := checkRate(p.GBytesPerSecond); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := checkLabel(p.Name); err != nil {
			return fmt.Errorf("ports[%d]: name %w", i, err)
		}
		if err := checkLabel(p.Kind); err != nil {
			return fmt.Errorf("%s: kind %w", name, err)
		}
		if p.Name == "" || names[p.Name] {
			return fmt.Errorf("%s: every port needs a name of its own", name)
		}
		names[p.Name] = true
		in := make(map[int]bool, len(p.Ranks))
		for _, r := range p.Ranks {
			if r < 0 || r >= g.Ranks {
				return fmt.Errorf("%s: rank %d is unknown, want 0..%d", name, r, g.Ranks-1)
			}
			if in[r] {
				return fmt.Errorf("%s: rank %d is given twice", name, r)
			}
			in[r] = true
		}
		if len(p.Ranks) == 0 || len(p.Ranks) >= g.Ranks {
			return fmt.Errorf("%s holds %d of %d ranks: want at least one inside and one outside", name, len(p.Ranks), g.Ranks)
		}
	}
	return nil
}

// checkLabel takes a word or two for people: printable, so that they cannot play
// with a terminal, and not long.
func checkLabel(text string) error {
	if n := utf8.RuneCountInString(text); n > maxLabel {
		return fmt.Errorf("has %d characters, want at most %d", n, maxLabel)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("is %q, with a character that cannot be printed", text)
	}
	return nil
}

func checkRate(v float64) error {
	if !(v >= MinRate && v <= MaxRate) {
		return fmt.Errorf("gbytes_per_second is %v, want %g..%g GB/s", v, MinRate, MaxRate)
	}
	return nil
}

// DisconnectedError reports that no tree can span a graph, and names its parts.
type DisconnectedError struct {
	Components [][]int // at least two; ranks rising within each, components by their lowest rank
}

// Error lists the first few components with their ranks.
func (e *DisconnectedError) Error() string {
	const shown = 8
	var list []string
	for _, c := range e.Components {
		list = append(list, "{"+RankList(c)+"}")
	}
	if more := len(list) - shown; more > 0 {
		list = append(list[:shown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("the graph is not connected: %d components: %s", len(e.Components), strings.Join(list, " "))
}

// RankList writes rising ranks as "0-3,7".
func RankList(ranks []int) string {
	var parts []string
	for i := 0; i < len(ranks); {
		first := i
		for i++; i < len(ranks) && ranks[i] == ranks[i-1]+1; i++ {
		}
		part := fmt.Sprint(ranks[first])
		switch i - first {
		case 1:
		case 2:
			part += fmt.Sprintf(",%d", ranks[i-1])
		default:
			part += fmt.Sprintf("-%d", ranks[i-1])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// Components returns the connected components of g: ranks rising within each,
// components by their lowest rank. The links of g must name known ranks.
func (g *Graph) Components() [][]int {
	sets := NewSets(g.Ranks)
	for _, l := range g.Links {
		sets.Join(l.A, l.B)
	}
	index := make([]int, g.Ranks)
	var parts [][]int
	for v := range g.Ranks {
		h := sets.head(v)
		if h == v {
			index[v] = len(parts)
			parts = append(parts, nil)
		}
		parts[index[h]] = append(parts[index[h]], v)
	}
	return parts
}

// Sets is disjoint sets of ranks: by rank, one nearer to the head of its set, which is its
// lowest rank.
type Sets []int

// NewSets returns n ranks, each in a set of its own.
func NewSets(n int) Sets { return numbers.Below(n) }

func (s Sets) head(v int) int {
	for s[v] != v {
		s[v] = s[s[v]]
		v = s[v]
	}
	return v
}

// Join makes one set of those of a and b, and reports whether they were two.
func (s Sets) Join(a, b int) bool {
	a, b = s.head(a), s.head(b)
	s[max(a, b)] = min(a, b)
	return a != b
}

// Matrix holds one figure per pair of ranks; the rows are symmetric.
type Matrix struct {
	N int
	V []float64 // N*N, row by row
}

// At returns the figure of the pair a, b.
func (m Matrix) At(a, b int) float64 { return m.V[a*m.N+b] }

// Set sets the figure of the pair a, b, both ways.
func (m Matrix) Set(a, b int, v float64) {
	m.V[a*m.N+b] = v
	m.V[b*m.N+a] = v
}

// Rates returns the rate between every pair of ranks in GB/s, 0 where g has no
// link. The links of g must name known ranks. It takes 8 bytes per pair.
func (g *Graph) Rates() Matrix { return g.matrix(func(l *Link) float64 { return l.GBytesPerSecond }) }

func (g *Graph) matrix(figure func(*Link) float64) Matrix {
	m := Matrix{N: g.Ranks, V: make([]float64, g.Ranks*g.Ranks)}
	for i := range g.Links {
		l := &g.Links[i]
		m.Set(l.A, l.B, figure(l))
	}
	return m
}
