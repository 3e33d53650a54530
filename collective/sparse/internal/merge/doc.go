// Package merge is the sparse AllReduce along a tree, as a state machine per rank: Node. Every rank sends its non-zero
// blocks to its parent in the order of their numbers; a rank with children merges their streams with its own blocks;
// the root thus gets the union, which goes down the same tree.
//
// Package sparse runs a Node per tree over links, which only it knows; blocks are dealt to several trees by a
// block.Deal. The package is pure: chunks are bytes that the caller moves.
//
// # How it compares to OmniReduce
//
// OmniReduce's aggregator requests the next block with a round trip; here each chunk of a stream names the first block
// of the next one. A merge continues as soon as the lowest of its inputs' next blocks has arrived, so no rank waits for
// a zero block, and the slots of a link bound the chunks in flight. An aggregator is the root of a star, with or
// without blocks of its own. Along trees no card carries the sum of all ranks' blocks: an edge carries at most a union.
//
// A stream consists of runs, so where the union is full a chunk is one run of adjacent blocks, reduced in one piece
// with eight bytes of overhead: a hop becomes dense, and sparse again, automatically.
//
// A block that came up only over one edge is not sent down that edge: the ranks below learn that the blocks that they
// sent up are final. In particular no block goes back to the only rank that had it.
//
// # Order
//
// Each rank adds its own block first, and then those of its children in their order; Job.Before can place its own block
// among these. All ranks get the same bits, which are those of a dense reduction in this order: see package block for
// blocks that no rank sent.
package merge
