// Package pool is the sparse AllReduce of ranks that can read each other's memory. It defines the computation of every
// rank, and its order; sparse/internal/drive notifies the other ranks when memory is ready.
//
// Every rank copies its blocks into memory that all can read, after a bitmap of their numbers: its part. When all parts
// are complete, every rank knows the blocks of all ranks, and so the division of the work:
//
//   - A block that few ranks have is added up by every rank, straight from the parts into its own tensor. That costs no
//     more than a copy of the sum would.
//   - The others are dealt: consecutive blocks to one rank, and the same number to each rank. That rank writes the sums
//     to memory that all can read, and every rank copies them.
//
// So every rank reads and writes no more than necessary, waits for the others once, or twice where blocks are dealt,
// and no data is relayed. Blocks are added up in rank order, on whatever rank: the result has the same bits on all
// ranks, and from run to run.
//
// The package is pure.
package pool
