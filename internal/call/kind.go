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

// Reduces reports whether calls of kind k combine elements.
func (k Kind) Reduces() bool {
	return k == AllReduce || k == Reduce || k == ReduceScatter || k == Scan || k == ExScan
}

// BusFactor returns the factor that takes the bytes of a call of kind k on n ranks, or their rate, to those that count
// for busbw, as nccl-tests defines it. Calls that it does not define count once, and those whose data are not the
// user's not at all.
func (k Kind) BusFactor(n int) float64 {
	others := float64(n-1) / float64(n)
	switch k {
	case AllReduce:
		return 2 * others
	case AllGather, ReduceScatter, Gather, Scatter, AllToAll:
		return others
	case Barrier, Exchange, Split, AllReduceMinLoc, AllReduceMaxLoc, Look:
		return 0
	}
	return 1
}

// OneWay reports whether some ranks of a call of kind k only send and others only receive.
func (k Kind) OneWay() bool { return k.hasRoot() || k == Scan || k == ExScan }

// hasRoot reports whether calls of kind k have a root.
func (k Kind) hasRoot() bool { return k == Reduce || k == Broadcast || k == Gather || k == Scatter }
