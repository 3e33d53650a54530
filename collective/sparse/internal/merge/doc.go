// Package merge is the sparse AllReduce along a tree, as a state machine per
// rank: Node. Every rank sends its non-zero blocks to its parent in the order of
// their numbers; a rank with children merges their streams with its own blocks;
// the root so gets the union, which goes down the same tree.
//
// Package sparse runs a Node per tree over links, which it alone knows; blocks
// are dealt to several trees by a block.Deal. The package is pure: chunks are
// bytes that the caller moves.
//
// # How it compares to OmniReduce
//
// What OmniReduce's aggregator asks for with a round trip, streams promise: each
// chunk says which block comes first in the next one. A merge goes on when the
// least of its inputs' next blocks is there, so nobody waits for a zero, and what
// may be under way is bounded by the slots of a link. An aggregator is the root of a star, with or
// without blocks of its own. Along trees no card carries the sum of all ranks' blocks: an edge
// carries a union at most.
//
// A stream consists of runs, so where the union is full a chunk is one run of
// blocks that lie beside each other, reduced in one piece with eight bytes of
// overhead: a hop becomes dense by itself, and sparse again.
//
// A block that came up only over one edge is not sent down that edge: the ranks
// below are told that what they sent up is final. In particular no block goes
// back to the only rank that had it.
//
// # Order
//
// At each rank the order is: its own block, then those of its children in the
// order in which it has them; Job.Before can put the own one among these. All ranks get
// the same bits, which are those of a dense reduction in this order: see package
// block for blocks that nobody sent.
package merge
