// Package topo holds what treerun knows of a machine or a network: a Graph of
// ranks, the links between them and the ports they share; and the Trees that
// builders make from it.
//
// The package is pure: no I/O, clock, goroutine or global state. It imports only
// small helpers of treerun; everything that knows of trees imports it. The same
// input gives the same output, byte for byte. The builders are in topo/tree,
// the measuring is in topo/probe.
package topo

import "cmp"

// Source is the source of a figure.
type Source string

// The sources, by rising trust.
const (
	Declared  Source = "declared"  // given by a file, NVML or a data sheet
	Estimated Source = "estimated" // follows from measurements of others
	Measured  Source = "measured"  // seen by topo/probe between running ranks
)

// Link joins two ranks, full duplex: the rate holds each way. GB = 1e9 bytes.
// One of kind TCP between two hosts joins all of their ranks.
type Link struct {
	A               int     `json:"a"`
	B               int     `json:"b"`
	GBytesPerSecond float64 `json:"gbytes_per_second"`
	LatencyUs       float64 `json:"latency_us,omitempty"` // one way, microseconds
	Kind            string  `json:"kind,omitempty"`       // "nvlink", "shm", "tcp"
	Source          Source  `json:"source,omitempty"`
	// the declared rate, where it was measured since; 0: none
	Declared float64 `json:"declared_gbytes_per_second,omitempty"`
	// the bytes that a byte over the link takes of each port on its way, 0 for 1: 1.2 for PCIe through Intel's CPUs
	PortCost float64 `json:"port_cost,omitempty"`
}

// PortLoad returns the bytes that a byte over the link takes of each port on its way.
func (l *Link) PortLoad() float64 { return cmp.Or(l.PortCost, 1) }

// Port is a rate shared by all traffic between the ranks of a set and the
// ranks outside it, each way: a network card, a PCIe uplink, a socket
// interconnect.
type Port struct {
	Name            string  `json:"name"`
	Ranks           []int   `json:"ranks"`
	GBytesPerSecond float64 `json:"gbytes_per_second"`
	Kind            string  `json:"kind,omitempty"` // NVLS, SHARP, or a name for readers
}

// The kinds of ports to a switch that reduces and multicasts data itself: an NVSwitch with NVLink SHARP, as those of
// H100 and later GPUs, and an InfiniBand switch with SHARP.
const (
	NVLS  = "nvls"
	SHARP = "sharp"
)

// Graph is the measured or declared topology of one job. The JSON form is the
// graph file of the command line.
type Graph struct {
	Name  string `json:"name,omitempty"`
	Ranks int    `json:"ranks"`
	Hosts []int  `json:"hosts,omitempty"` // host index of each rank; empty: one host
	Links []Link `json:"links"`
	Ports []Port `json:"ports,omitempty"`
}

// Tree is a spanning tree over the ranks of a Graph, used upwards to reduce
// and downwards to broadcast.
//
// A balanced reduce tree on n ranks carries rounds: in ceil(log2 n) rounds
// every rank but the root sends once, after all its receives, and no rank
// takes part in two transfers of one round.
type Tree struct {
	Root   int   `json:"root"`
	Parent []int `json:"parent"` // Parent[v], -1 for the root
	// 1-based round in which v sends to its parent, 0 for the root; nil when the tree is not a
	// balanced reduce tree
	Round []int  `json:"round,omitempty"`
	Note  string `json:"note,omitempty"` // why the tree is not of the kind requested, in one sentence; for people
}
