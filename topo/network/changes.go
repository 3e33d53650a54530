package network

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/topo"
)

// apart is the ratio from which two measurements of a rate show two rates, and not noise.
const apart = 1.2

// Change is a rate, of a host or between two, that is another one than in an earlier measurement.
type Change struct {
	What     string  // the host or hosts
	Was, Now float64 // GB/s
}

// String describes the change for users.
func (c Change) String() string { return fmt.Sprintf("%s: %.3g GB/s, was %.3g", c.What, c.Now, c.Was) }

// Changes returns the differences from an earlier network of the same hosts. Pairs of a host that has changed are not
// among them. Rates from most on count as equal.
func (n *Network) Changes(earlier *Network, most float64) (list []Change) {
	add := func(what string, was, now float64) bool {
		differ := ratio(min(was, most), min(now, most)) > apart
		if differ {
			list = append(list, Change{what, was, now})
		}
		return differ
	}
	now, was := n.hostRates(), earlier.hostRates()
	changed := make([]bool, len(now))
	for h := range now {
		changed[h] = add(n.Hosts[h], was[h], now[h])
	}
	index := earlier.Graph.LinkIndex()
	for _, l := range n.Graph.Links {
		if i, known := index[topo.Pair(l.A, l.B)]; known && !changed[l.A] && !changed[l.B] {
			add(n.Hosts[l.A]+" and "+n.Hosts[l.B], earlier.Graph.Links[i].GBytesPerSecond, l.GBytesPerSecond)
		}
	}
	return list
}

// Slowest returns the rate of the slowest host, in GB/s: no collective in which all ranks take part is faster.
func (n *Network) Slowest() float64 {
	least := math.Inf(1)
	for _, rate := range n.hostRates() {
		least = min(least, rate)
	}
	return least
}

// hostRates returns the rate of each host: of its card or, without one, of its quickest link.
func (n *Network) hostRates() []float64 {
	rates := make([]float64, len(n.Hosts))
	for _, l := range n.Graph.Links {
		rates[l.A], rates[l.B] = max(rates[l.A], l.GBytesPerSecond), max(rates[l.B], l.GBytesPerSecond)
	}
	for _, p := range n.Graph.Ports {
		rates[p.Ranks[0]] = p.GBytesPerSecond
	}
	return rates
}
