// Package sparse reduces tensors that are mostly zero: only blocks that have
// something in them travel.
//
//	stats, err := sparse.AllReduce(ctx, c, grad, grad, collective.Sum)
//
// A tensor is cut into blocks of 256 elements (BlockSize). Before anything else
// the ranks tell each other what they were called with, and which of about a
// thousand blocks, the same ones on all of them, have something in them: so
// all know the density, that of the union, and that they make the same call. By
// price, which follows from the density and from what the dense plan would take, the call
// then runs in one of these forms, which Use can say instead:
//
//   - Trees: along the trees of the communicator, whose inner ranks merge sorted
//     streams of blocks (package merge);
//   - Aggregators: the same along stars around ranks that aggregate, among which the blocks are
//     dealt; never by price, as trees are as quick or quicker;
//   - Shared: on one host, where every rank puts its blocks into memory that all can
//     read, and takes from there what it needs (package pool);
//   - Dense: as collective.AllReduce, where there is nothing to save;
//   - Compact, of AllReduceDevice: the devices put the blocks that any rank has one behind the
//     other, and the dense plan reduces these from device to device.
//
// Between hosts blocks of which most elements are zero travel without them.
//
// Ranks that call Serve have no tensor: they are the only aggregators for the others, until
// these call StopServing. So hosts without tensors can take a part of the traffic.
//
// # OmniReduce
//
// Of OmniReduce (Fei, Ho, Sahu, Canini, Sapio, "Efficient Sparse Collective Communication and its
// application to Accelerate Distributed Deep Learning", SIGCOMM 2021) Aggregators has: only blocks
// that are not zero travel, each message says which block its sender has next, so that an
// aggregator goes on with the least of them, several aggregators have a part of the tensor each,
// and slots bound what is under way. It departs from the paper's Algorithm 1 in that a worker does
// not wait until the aggregator asks for its next block, but sends on as far as there are slots;
// that a message has runs of blocks in place of one block per column; and that blocks are added in
// a fixed order. Algorithm 1 itself was up to three times slower between hosts.
//
// AllReduceDevice does it for device memory, of which only those blocks come to the
// host, or none; AllReducePairs for lists of rows.
//
// # Zeros
//
// A block is left out when all its bits are zero but for signs: NaN, infinities
// and subnormal numbers are never lost, and -0 in such a block counts as +0. A
// block that a rank leaves out counts as +0 in Min and Max, too. send is never
// changed, unless it is recv.
//
// # Results
//
// All ranks get the same bits. Integers have those of collective.AllReduce.
// Floating-point numbers are added in a fixed order: of the ranks with Aggregators and
// Shared, of the trees with Trees, of the plan with Dense and Compact. So the last bits of a sum
// depend on the form, and between Trees and Dense on the communicator's trees and plans. Of
// one form on one graph they are the same from run to run. The form that is chosen by price
// is the same for the same sample of blocks on the same graph, whatever calls came before;
// where the graph is measured it may be another one in another run: Use says which it is to be.
//
// The sum of zeros is -0 where all ranks have -0, and else +0, whatever the form, but for
// elements in blocks that some rank leaves out: such a rank has +0 there. In the Dense
// form no block is left out.
//
// # Memory
//
// The form Shared has memory for a rank's blocks that all ranks of the host map, and for the
// sums it makes. A rank keeps both with a communicator from call to call. What is beyond 64 MiB of
// either it gives back when a call that needs less, or one in another form, begins.
// Closing the communicator gives all back. A rank that serves has as much memory as the largest
// tensor, of which it touches the places of the blocks that it adds up. A rank that cannot have the memory ends the
// communicator; Use(Trees) takes none. Where ranks
// share no memory from the start, as they are on several hosts or started under a small
// ulimit -v, the form is not chosen, and Use(Shared) is an ErrArgument, on all ranks, when they
// have told each other.
//
// # Errors
//
// They are those of package collective. Ranks that call with another length,
// element type, operation, block size or option all get ErrMismatch, with who
// called what; a wrong argument is an ErrArgument before anything is sent, and so is a
// tensor of more than 2^30 blocks. Whether the rows of AllReducePairs are as
// many is known, on all ranks alike, when their indices have been told. A rank of the
// same host that is stopped, by a debugger say, is waited for; one on another host is lost when
// nothing has been heard of it for some seconds.
//
// # Links
//
// The links are opened by the first call on a communicator that needs them, and live as
// long as it does, or until a call with larger blocks than they carry opens others in
// their place. Several communicators may do so at once, in any order.
package sparse
