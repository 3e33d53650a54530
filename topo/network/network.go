// Package network is not for users: it makes a Graph of several hosts from their measurements of each other: Infer
// turns the rates of single flows, and of many at once, into the rate of every pair of hosts and the cards that pairs
// share; Graph adds the links within the hosts and gives every rank its links.
//
// The package is pure: no I/O, clock, goroutine or global state. All hosts infer the same Network from the same
// Findings, byte for byte. The measuring is in topo/probe; topo/tree, topo/pack and package collective use the Graph.
package network

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/topo"
)

// Limits of Findings and Networks from outside.
const (
	maxHosts  = 1 << 11
	maxSlices = 1 << 10
	maxTurn   = 1 << 20
	maxFlows  = 1 << 22
	maxName   = 255 // bytes of a host's name
)

// Flow is the data that one host received from another during one turn of a measurement. Flows of one turn run at once;
// a host is in no more than one pair, or one star of flows from or to it.
type Flow struct {
	Turn     int
	Src, Dst int // hosts
	// GB/s of payload in successive parts of the turn of equal length, the same ones on all flows of
	// the turn
	Slices []float64
	Bytes  int64 // in all, those before the first part included
}

// Middle is the rate of the flow: the mean of the middle half of its parts.
func (f *Flow) Middle() float64 { return middle(f.Slices) }

// Trip is the time of a small message between two hosts.
type Trip struct {
	A, B int
	Us   float64 // one way, microseconds
}

// Findings is the measurements of one host, or of all of them.
type Findings struct {
	Flows []Flow
	Trips []Trip
}

// Add appends the findings of another host.
func (f *Findings) Add(more *Findings) {
	f.Flows = append(f.Flows, more.Flows...)
	f.Trips = append(f.Trips, more.Trips...)
}

// validate reports the first thing that cannot have been measured between the given number of hosts.
func (f *Findings) validate(hosts int) error {
	if len(f.Flows) > maxFlows || len(f.Trips) > maxFlows {
		return fmt.Errorf("network: %d flows and %d trips, want at most %d each", len(f.Flows), len(f.Trips), maxFlows)
	}
	for i := range f.Flows {
		w := &f.Flows[i]
		if w.Src < 0 || w.Src >= hosts || w.Dst < 0 || w.Dst >= hosts || w.Src == w.Dst {
			return fmt.Errorf("network: flow %d goes from host %d to host %d of %d", i, w.Src, w.Dst, hosts)
		}
		if w.Turn < 0 || w.Turn > maxTurn || len(w.Slices) < 1 || len(w.Slices) > maxSlices || w.Bytes < 0 {
			return fmt.Errorf("network: flow %d (%d to %d): turn %d, %d slices, %d bytes", i, w.Src, w.Dst, w.Turn,
				len(w.Slices), w.Bytes)
		}
		for _, v := range w.Slices {
			if !(v >= 0 && v <= topo.MaxRate) {
				return fmt.Errorf("network: flow %d (%d to %d): a rate of %v GB/s", i, w.Src, w.Dst, v)
			}
		}
	}
	for i, t := range f.Trips {
		if t.A < 0 || t.A >= hosts || t.B < 0 || t.B >= hosts || t.A == t.B {
			return fmt.Errorf("network: trip %d is between hosts %d and %d of %d", i, t.A, t.B, hosts)
		}
		if !(t.Us > 0 && t.Us <= topo.MaxLatency) {
			return fmt.Errorf("network: trip %d (%d to %d) takes %v us", i, t.A, t.B, t.Us)
		}
	}
	return nil
}

// Network describes the ways between hosts. The same network has the same JSON form, byte for byte.
type Network struct {
	Probe string   `json:"probe"`       // how it was measured: "quick", "full", "off"
	At    int64    `json:"measured_at"` // when, in seconds since 1970; 0: never
	Hosts []string `json:"hosts"`       // names, by host

	// Graph has the hosts as its ranks: a link for every pair, and a port for every host
	// whose pairs share something, as its network card. Rates are those of the slower
	// direction, made equal to others within noise.
	Graph topo.Graph `json:"graph"`
}

// newNetwork returns a network without links.
func newNetwork(hosts []string) *Network {
	return &Network{Hosts: hosts, Graph: topo.Graph{Ranks: len(hosts), Links: []topo.Link{}}}
}

// addPort gives a host a card of that rate.
func (n *Network) addPort(host int, gbytesPerSecond float64) {
	n.Graph.Ports = append(n.Graph.Ports,
		topo.Port{Name: fmt.Sprintf("card %d", host), Ranks: []int{host}, GBytesPerSecond: gbytesPerSecond})
}

// Declared is the assumed network of hosts that were not measured: all equal, each with a card of that rate, in GB/s.
func Declared(hosts []string, gbytesPerSecond, latencyUs float64) *Network {
	n := newNetwork(hosts)
	n.Probe = "off"
	for a := range hosts {
		if len(hosts) > 2 {
			n.addPort(a, gbytesPerSecond)
		}
		for b := a + 1; b < len(hosts); b++ {
			n.Graph.Links = append(n.Graph.Links, topo.Link{A: a, B: b, GBytesPerSecond: gbytesPerSecond,
				LatencyUs: latencyUs, Kind: topo.TCP, Source: topo.Declared})
		}
	}
	return n
}

// Validate reports the first invalid element of n.
func (n *Network) Validate() error {
	hosts := len(n.Hosts)
	if hosts < 2 || hosts > maxHosts {
		return fmt.Errorf("network: %d hosts, want 2..%d", hosts, maxHosts)
	}
	for i, h := range n.Hosts {
		if len(h) > maxName {
			return fmt.Errorf("network: hosts[%d] has a name of %d bytes", i, len(h))
		}
	}
	if _, err := ParseEffort(n.Probe); n.Probe != "" && err != nil {
		return fmt.Errorf("network: probe %w", err)
	}
	g := &n.Graph
	if err := g.Validate(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if g.Ranks != hosts || len(g.Hosts) > 0 || len(g.Links) != hosts*(hosts-1)/2 {
		return fmt.Errorf("network: a graph of %d ranks and %d links for %d hosts: want a link for every pair", g.Ranks,
			len(g.Links), hosts)
	}
	seen := make([]bool, hosts)
	for i, p := range g.Ports {
		if len(p.Ranks) != 1 || seen[p.Ranks[0]] {
			return fmt.Errorf("network: ports[%d] is of hosts %v, want one that has no other", i, p.Ranks)
		}
		seen[p.Ranks[0]] = true
	}
	return nil
}

// clampRate makes a measured rate one that a graph may have.
func clampRate(v float64) float64 { return min(max(v, topo.MinRate), topo.MaxRate) }

// ratio returns the ratio of two rates, at least 1.
func ratio(a, b float64) float64 { return math.Max(a/b, b/a) }

// MaxBytes bounds the JSON form of a Network.
const MaxBytes = 256 << 20

// Renumber returns n with its hosts in another order: host i is n's host
// order[i], which must be a permutation.
func (n *Network) Renumber(order []int) *Network {
	out := *n
	out.Hosts = make([]string, len(order))
	for i, h := range order {
		out.Hosts[i] = n.Hosts[h]
	}
	out.Graph = *n.Graph.Among(order)
	return &out
}

// Text writes n for people: rates and latencies between the hosts, and their cards.
// now is the time, in seconds since 1970.
func (n *Network) Text(now int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "network of %d hosts: %s\n", len(n.Hosts), n.Origin(now))
	g := n.Graph
	g.Ports = slices.Clone(g.Ports)
	var names []string
	for h := range n.Hosts {
		names = append(names, n.name(h))
	}
	for i, p := range g.Ports {
		g.Ports[i].Name = "card of " + names[p.Ranks[0]]
	}
	g.Describe(&b, names)
	return b.String()
}

// Origin describes the source of the values of n, and their age.
func (n *Network) Origin(now int64) string {
	if n.At == 0 {
		return "declared, nothing was measured"
	}
	return fmt.Sprintf("measured (%s) %s", n.Probe, age(now-n.At))
}

// age returns an age of the given number of seconds in words.
func age(seconds int64) string {
	switch {
	case seconds < 5:
		return "just now"
	case seconds < 2*60:
		return fmt.Sprintf("%d seconds ago", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%d minutes ago", seconds/60)
	case seconds < 2*86400:
		return fmt.Sprintf("%d hours ago", seconds/3600)
	}
	return fmt.Sprintf("%d days ago", seconds/86400)
}
