// Package pool is the sparse AllReduce of ranks that can read each other's memory:
// what every rank computes, and in what order, but not how they find out that the
// others are ready, which is sparse/internal/drive's.
//
// Every rank puts its blocks into memory that all can read, behind a bitmap of
// which they are: its part. When all parts are there, every rank knows what all have,
// and so who does what:
//
//   - A block that few ranks have is added up by everybody, straight from the parts
//     into its own tensor. That costs no more than to fetch a sum would.
//   - The others are dealt: consecutive ones to one rank, to all as many. That rank
//     puts the sums into memory that all can read, and everybody copies them.
//
// So every rank reads and writes what it must, a rank waits for the others once, or
// twice where blocks are dealt, and nothing goes from hand to hand. Blocks are
// added up in the order of the ranks, whoever does it: the result has the same bits on
// all of them, and from run to run.
//
// The package is pure.
package pool
