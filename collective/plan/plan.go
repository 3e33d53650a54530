// Package plan holds collectives as data. A Plan lists, for every rank, its steps per chunk. Fuse and Shares are its
// schedule: the steps that one rank runs, and the bytes of its lanes and chunks. Verify proves the fused steps,
// collective/internal/engine and device run them, and package sim predicts the time of the Plan.
//
// The package is pure: no I/O, clock, goroutine or global state. The same input gives the same Plan, byte for byte, on
// every rank. Of treerun it imports topo and internal/strict; collective and the packages below it import it. Machine
// facts and message sizes stay outside: a Plan is the same for 8 bytes and for 1 GB.
package plan

// Kind is the collective that a Plan performs.
type Kind uint8

// The kinds. Barrier runs as an AllReduce of nothing. The kinds from AllGather
// to AllToAll have a message of Size equal parts, one for every rank.
const (
	AllReduce Kind = iota + 1
	Reduce
	Broadcast
	Barrier
	AllGather     // every rank gets every part; part i is the input of rank i
	ReduceScatter // rank i gets part i of the reduction
	Gather        // the root gets every part; part i is the input of rank i
	Scatter       // rank i gets part i of the root's input
	AllToAll      // rank i gets part i of every rank's input
	Scan          // every rank gets the reduction of the inputs up to its own
	ExScan        // every rank but the first gets the reduction of the inputs before its own
	kindEnd       // one past the last
)

// Kinds yields all kinds.
func Kinds(yield func(Kind) bool) {
	for k := AllReduce; k < kindEnd && yield(k); k++ {
	}
}

// Op is the operation of a Step on one chunk.
type Op uint8

// The steps. "in" is the window received from From, "out" the window sent to
// To, "src" and "dst" the chunk in the local buffers named by Src and Dst.
const (
	Send               Op = iota + 1 // out = src
	Recv                             // dst = in
	RecvReduce                       // dst = src op in
	RecvReduceSend                   // out = src op in
	RecvReduceCopySend               // dst = src op in, out = dst
	RecvCopySend                     // dst = in, out = in
	Copy                             // dst = src
	LocalReduce                      // dst = dst op src
)

// Buf names a local buffer of a rank. In and Out have the length of the whole message; they are the same memory when
// the call is in place. Tmp is one chunk that each Track has for itself and overwrites for every chunk.
//
// Where the message has parts, a rank may have its own part only: In in an AllGather and a Gather, Out in a
// ReduceScatter and a Scatter. In place that part lies within the other buffer, where the rank's part belongs.
// Kind.Parts returns the part of a buffer that a step touches.
type Buf uint8

// The buffers. A Step that has no use for one holds None there.
const (
	None Buf = iota
	In       // the caller's input; never written
	Out      // the caller's result
	Tmp      // scratch of one chunk, for a track that has no Out to accumulate in
)

// Step is one action of one rank on one chunk. From and To are ranks, -1 where
// the Op has none.
type Step struct {
	Op       Op
	Src, Dst Buf
	From, To int32
}

// Track is a list of steps that one rank runs in order, the whole list once
// per chunk. Tracks of one rank run side by side.
type Track struct {
	Rank  int
	Steps []Step
}

// Lane is one tree (or ring) with its share of the message: Weight over the
// sum of the weights of all lanes. Lanes share nothing but the ranks.
//
// Where the message has parts, the lane carries a share of one of them: Weight
// over the sum of the weights of all lanes of that Part. Lanes stand by rising
// Part, and every part has one. A lane of an AllToAll carries the same share of
// every part: there, as where the message has no parts, Part is 0.
type Lane struct {
	Part   int     `json:"part,omitempty"`
	Weight float64 `json:"weight"`
	Tracks []Track `json:"tracks"`
}

// Plan is a collective as data. The links it uses are FIFOs of bounded slots,
// identified by (lane, source, destination); no other synchronization exists.
type Plan struct {
	Name  string // how it was built, for users: "tree(root 0)", "trees(8)"
	Kind  Kind
	Size  int // ranks
	Root  int // -1 where the kind has none
	Lanes []Lane
}
