// Package omni is OmniReduce's protocol as two state machines: Worker, which has
// a tensor, and Aggregator, which adds up blocks. Only non-zero blocks travel,
// and the aggregator asks for them one after the other.
//
// It knows no links, clock or goroutine: packets are bytes that the caller moves.
// Package sparse runs it.
// The package is pure.
//
// # The protocol
//
// Fei, Ho, Sahu, Canini, Sapio, "Efficient Sparse Collective Communication and
// its application to Accelerate Distributed Deep Learning" (SIGCOMM 2021).
// Block b of a tensor belongs to column b mod C of C = Streams x Columns
// columns, and Columns columns that follow each other are a stream. Every
// column runs Algorithm 1 by itself: a worker sends a block with the number of
// its next non-zero block in the column, the aggregator asks for the least that
// anybody has next as soon as nobody can have an earlier one, and only those who
// have it answer. A packet carries blocks of different columns of one stream
// (block fusion) behind which stands a table of next offsets; that of a column
// which has ended is an infinity of its own, so that it still names the column.
// The columns of a stream advance together: a result carries all that have not
// ended. Streams are independent, and as many are under way as there are.
//
// The paper has an Algorithm 2 for networks that lose packets. No transport of treerun
// does: over UDP it was slower than Algorithm 1 over links in every row measured.
//
// # Lists
//
// The paper has a block be a list of key-value pairs, too. With Shape.Lists every block of a
// packet, of a worker as of a result, is a list of (index, value) pairs where that is
// at most half as long as its values. The aggregator adds either form in the order of the workers. An
// element with any bit is in the list, so that results have the same bits. A list costs a
// search of its block; a block of which a few elements, spread over it, are not zero is
// taken to be dense, and is not searched.
//
// # What differs from the published code
//
// Blocks of one place are added in the order of the workers, not of arrival, so
// results are the same every time. A packet names its tensor, round and worker
// and a digest of the Shape. With Shape.Compact the first blocks of columns, which
// the published protocol sends even when they are zero, are told but not carried.
// Package block says what a block that nobody sent stands for; no number is lost,
// NaN included, and a tensor is only read.
package omni
