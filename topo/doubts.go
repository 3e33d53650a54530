package topo

import (
	"fmt"
	"slices"
)

const (
	// doubtful is the ratio of the rates of a port and of a rank's quickest link through it from which the port holds
	// more than one rank's own slot or card.
	doubtful = 1.5

	maxDoubted = 1 << 10 // ranks of a graph up to which its ports are examined
	maxDoubts  = 4       // ports that are described
)

// Doubts describes ports of several ranks that limit a single rank too little, so that plans promise more than the
// machine carries. Such a rank has links through the port to several ranks of one host, and no port of its own or of
// fewer ranks holds their sum to about the rate of one: the graph has a way for every pair where the rank has one slot
// or card for all of them. Links between cores (kind "shm") take none, and those of kind TCP between hosts are one
// wire.
func (g *Graph) Doubts() (list []string) {
	if g.Ranks > maxDoubted {
		return nil
	}
	more := 0
	for i := range g.Ports {
		text := ""
		if len(g.Ports[i].Ranks) > 1 {
			text = g.doubt(&g.Ports[i])
		}
		switch {
		case text != "" && len(list) < maxDoubts:
			list = append(list, text)
		case text != "":
			more++
		}
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("%d more ports are like these", more))
	}
	return list
}

// doubt describes a port, "" where it limits every rank enough.
func (g *Graph) doubt(p *Port) string {
	inside := make([]bool, g.Ranks)
	for _, r := range p.Ranks {
		inside[r] = true
	}
	rate := make([]float64, g.Ranks)           // by rank inside: its quickest link through the port
	links, most := make(map[[2]int]int), 0     // links of a rank to a host
	several := make(map[int]bool, len(inside)) // ranks with more than one
	for _, l := range g.Links {
		a, b := l.A, l.B
		if inside[b] {
			a, b = b, a
		}
		wire := l.Kind == TCP && g.Host(a) != g.Host(b)
		if inside[a] == inside[b] || wire || l.Kind == "shm" {
			continue
		}
		key := [2]int{a, g.Host(b)}
		links[key]++
		rate[a] = max(rate[a], l.GBytesPerSecond)
		several[a] = several[a] || links[key] > 1
	}
	var ranks []int
	quickest := 0.0
	for r := range g.Ranks {
		if several[r] && p.GBytesPerSecond >= doubtful*rate[r] && !g.holds(inside, len(p.Ranks), r, rate[r]) {
			ranks, quickest = append(ranks, r), max(quickest, rate[r])
		}
	}
	for key, n := range links {
		if slices.Contains(ranks, key[0]) {
			most = max(most, n)
		}
	}
	if len(ranks) == 0 {
		return ""
	}
	from := "rank"
	if len(ranks) > 1 {
		from = "each of the ranks"
	}
	return fmt.Sprintf("port %q: %d links of up to %.4g GB/s lead from %s %s through it to one host, and "+
		"nothing holds their sum below %.4g GB/s. If they share a slot or a card, give every rank a port of that rate, or "+
		"link it only with the rank that its card reaches", p.Name, most, quickest, from, RankList(ranks),
		min(float64(most)*quickest, p.GBytesPerSecond))
}

// holds reports whether a port of fewer ranks than the number inside, one of them rank, is about as slow as a rate.
func (g *Graph) holds(inside []bool, number, rank int, rate float64) bool {
	return slices.ContainsFunc(g.Ports, func(q Port) bool {
		return len(q.Ranks) < number && q.GBytesPerSecond < doubtful*rate && slices.Contains(q.Ranks, rank) &&
			!slices.ContainsFunc(q.Ranks, func(r int) bool { return !inside[r] })
	})
}
