// Package network makes a Graph of several hosts from what they measured of each
// other: Infer turns the rates of single flows, and of many at once, into the
// rate of every pair of hosts and the cards that pairs share; Graph adds the
// links within the hosts and gives every rank its links.
//
// The package is pure: no I/O, clock, goroutine or global state. All hosts infer
// the same Network from the same Findings, byte for byte. The measuring is in
// topo/probe; what is done with the Graph is for topo/tree, topo/pack and
// package collective.
package network

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/topo"
)

// Limits of Findings and Networks from outside.
const (
	MaxHosts  = 1 << 12
	maxSlices = 1 << 10
	maxTurn   = 1 << 20
	maxFlows  = 1 << 22
	maxName   = 255 // bytes of a host's name
)

// Flow is what one host received from another during one turn of a measurement.
// Flows of one turn run at once; a host is in no more than one pair, or one star
// of flows from or to it.
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

// Findings is what one host, or all of them, measured.
type Findings struct {
	Flows []Flow
	Trips []Trip
}

// Add appends what another host found.
func (f *Findings) Add(more *Findings) {
	f.Flows = append(f.Flows, more.Flows...)
	f.Trips = append(f.Trips, more.Trips...)
}

// validate reports the first thing that cannot have been measured between so
// many hosts.
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

// Pair is what is known of the way between two hosts.
type Pair struct {
	A int `json:"a"`
	B int `json:"b"` // above A

	// GB/s from A to B and from B to A with nothing else under way, as measured;
	// 0: not measured.
	Out  float64 `json:"out_gbytes_per_second"`
	Back float64 `json:"back_gbytes_per_second"`

	// each way: the slower direction, made equal to others within noise
	GBytesPerSecond float64     `json:"gbytes_per_second"`
	LatencyUs       float64     `json:"latency_us"` // one way
	Source          topo.Source `json:"source"`     // Measured, Estimated from other pairs, or Declared
}

// Port is what all traffic of one host shares, as its network card.
type Port struct {
	Host int `json:"host"`

	// GB/s of all flows from and to the host at once, as measured; 0: as much as
	// the pairs together.
	Out float64 `json:"out_gbytes_per_second"`
	In  float64 `json:"in_gbytes_per_second"`

	// each way: the slower direction, made equal to others within noise
	GBytesPerSecond float64     `json:"gbytes_per_second"`
	Source          topo.Source `json:"source"`
}

// Network is what is known of the way between hosts. The same network has the same
// JSON form, byte for byte.
type Network struct {
	Probe string   `json:"probe"`           // how it was measured: "quick", "full", "off"
	At    int64    `json:"measured_at"`     // when, in seconds since 1970; 0: never
	Hosts []string `json:"hosts"`           // names, by host
	Pairs []Pair   `json:"pairs,omitempty"` // rising by A, then B
	Ports []Port   `json:"ports,omitempty"` // rising by Host; a host without one has no limit of its own
}

// Declared is the network that one assumes of hosts that nobody has measured:
// all alike, each with a card of that rate, in GB/s.
func Declared(hosts []string, gbytesPerSecond, latencyUs float64) *Network {
	n := &Network{Hosts: hosts, Probe: "off"}
	for a := range hosts {
		if len(hosts) > 2 {
			n.Ports = append(n.Ports, Port{Host: a, GBytesPerSecond: gbytesPerSecond, Source: topo.Declared})
		}
		for b := a + 1; b < len(hosts); b++ {
			n.Pairs = append(n.Pairs, Pair{A: a, B: b, GBytesPerSecond: gbytesPerSecond, LatencyUs: latencyUs,
				Source: topo.Declared})
		}
	}
	return n
}

// Even reports whether all pairs have one rate and one latency, and either
// all hosts a port of one rate or none a port.
func (n *Network) Even() bool {
	for _, p := range n.Pairs {
		if p.GBytesPerSecond != n.Pairs[0].GBytesPerSecond || p.LatencyUs != n.Pairs[0].LatencyUs {
			return false
		}
	}
	for _, p := range n.Ports {
		if p.GBytesPerSecond != n.Ports[0].GBytesPerSecond {
			return false
		}
	}
	return len(n.Ports) == 0 || len(n.Ports) == len(n.Hosts)
}

// index returns the place of the pair a, b in Pairs of a whole network of n
// hosts.
func index(n, a, b int) int {
	a, b = min(a, b), max(a, b)
	return a*(2*n-a-1)/2 + b - a - 1
}

// Validate reports the first element of n that cannot be.
func (n *Network) Validate() error {
	hosts := len(n.Hosts)
	if hosts < 2 || hosts > MaxHosts {
		return fmt.Errorf("network: %d hosts, want 2..%d", hosts, MaxHosts)
	}
	for i, h := range n.Hosts {
		if len(h) > maxName {
			return fmt.Errorf("network: hosts[%d] has a name of %d bytes", i, len(h))
		}
	}
	if _, err := ParseEffort(n.Probe); n.Probe != "" && err != nil {
		return fmt.Errorf("network: probe %w", err)
	}
	if len(n.Pairs) != hosts*(hosts-1)/2 {
		return fmt.Errorf("network: %d pairs of %d hosts, want %d", len(n.Pairs), hosts, hosts*(hosts-1)/2)
	}
	for i, p := range n.Pairs {
		if p.A < 0 || p.A >= p.B || p.B >= hosts || index(hosts, p.A, p.B) != i {
			return fmt.Errorf("network: pairs[%d] is of hosts %d and %d: pairs rise, and every pair stands once", i, p.A, p.B)
		}
		if !possible(p.GBytesPerSecond, p.Out, p.Back) || !(p.LatencyUs >= 0 && p.LatencyUs <= topo.MaxLatency) ||
			p.LatencyUs > 0 && p.LatencyUs < topo.MinLatency {
			return fmt.Errorf("network: pairs[%d] (%d-%d): %v GB/s (%v out, %v back), %v us", i, p.A, p.B, p.GBytesPerSecond,
				p.Out, p.Back, p.LatencyUs)
		}
		if err := known(p.Source); err != nil {
			return fmt.Errorf("network: pairs[%d] (%d-%d): %w", i, p.A, p.B, err)
		}
	}
	last := -1
	for i, p := range n.Ports {
		if p.Host <= last || p.Host >= hosts {
			return fmt.Errorf("network: ports[%d] is of host %d: hosts rise, below %d", i, p.Host, hosts)
		}
		last = p.Host
		if !possible(p.GBytesPerSecond, p.Out, p.In) {
			return fmt.Errorf("network: ports[%d] (host %d): %v GB/s (%v out, %v in)", i, p.Host, p.GBytesPerSecond, p.Out, p.In)
		}
		if err := known(p.Source); err != nil {
			return fmt.Errorf("network: ports[%d] (host %d): %w", i, p.Host, err)
		}
	}
	return nil
}

// possible checks a rate and what it was made of.
func possible(rate float64, measured ...float64) bool {
	for _, v := range measured {
		if !(v >= 0 && v <= topo.MaxRate) {
			return false
		}
	}
	return rate >= topo.MinRate && rate <= topo.MaxRate
}

func known(s topo.Source) error {
	if s == topo.Measured || s == topo.Estimated || s == topo.Declared {
		return nil
	}
	return fmt.Errorf("source %q", s)
}

// clampRate makes a measured rate one that a graph may have.
func clampRate(v float64) float64 { return min(max(v, topo.MinRate), topo.MaxRate) }

// ratio is by how much two rates differ, at least 1.
func ratio(a, b float64) float64 { return math.Max(a/b, b/a) }
