// Package call names calls. An ID is one call of a communicator, or one message between two ranks, as users know it; a
// Header is an ID in the 24 bytes that travel in front of every chunk, and that ranks publish. Ranks that make
// different calls are detected by their Headers. Reports about waits contain the texts of calls. Logs hold
// the latest calls of a rank.
//
// The package is below the transports, and knows no communicator.
package call

import "fmt"

// Kind is the function of a communicator that makes a call, or Message.
type Kind uint8

// The collectives, with the numbers that they have in package plan.
const (
	AllReduce Kind = iota + 1
	Reduce
	Broadcast
	Barrier
	AllGather
	ReduceScatter
	Gather
	Scatter
	AllToAll
	Scan
	ExScan
)

// The calls that begin with an AllGather, and Look. Those of AllReduceMinLoc and AllReduceMaxLoc are of one element of
// each rank, which is in no slice of the caller's.
const (
	Exchange Kind = iota + 101 // of a sparse collective or, on a device, of ranks that open their devices
	Split
	AllReduceMinLoc
	AllReduceMaxLoc
	Look // an AllReduce of the times of large calls, between these
	Dup
	SplitByHost
	AllGatherObject
	GatherObject
	NewBuckets
	Restore
)

// Message is a message between two ranks, which is no call of all of them.
const Message Kind = 255

var kindNames = map[Kind]string{
	AllReduce: "AllReduce", Reduce: "Reduce", Broadcast: "Broadcast", Barrier: "Barrier", AllGather: "AllGather",
	ReduceScatter: "ReduceScatter", Gather: "Gather", Scatter: "Scatter", AllToAll: "AllToAll", Exchange: "Sparse",
	Split: "Split", Scan: "Scan", ExScan: "ExScan",
	AllReduceMinLoc: "AllReduceMinLoc", AllReduceMaxLoc: "AllReduceMaxLoc", Look: "Look", Dup: "Dup",
	SplitByHost: "SplitByHost", AllGatherObject: "AllGatherObject", GatherObject: "GatherObject",
	NewBuckets: "NewBuckets", Restore: "Restore",
}

// String returns the name of the function.
func (k Kind) String() string {
	if name, known := kindNames[k]; known {
		return name
	}
	return fmt.Sprintf("unknown call %d", uint8(k))
}

// OneWay reports whether some ranks of a call of kind k only send and others only receive.
func (k Kind) OneWay() bool { return k.hasRoot() || k == Scan || k == ExScan }

// reduces reports whether calls of kind k combine elements.
func (k Kind) reduces() bool {
	return k == AllReduce || k == Reduce || k == ReduceScatter || k == Scan || k == ExScan
}

// hasRoot reports whether calls of kind k have a root.
func (k Kind) hasRoot() bool { return k == Reduce || k == Broadcast || k == Gather || k == Scatter }
