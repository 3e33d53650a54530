// Package sparse reduces tensors that are mostly zero: only blocks with non-zero elements are sent.
//
//	stats, err := sparse.AllReduce(ctx, c, grad, grad, collective.Sum)
//
// A tensor is cut into blocks of 256 elements (BlockSize). First the ranks exchange the arguments of their calls, and
// which blocks of a sample, about a thousand and the same ones on all ranks, are non-zero: every rank then knows the
// density of each tensor and of the union, and whether all ranks make the same call. Each form has a price, predicted
// from the density and from the time of the dense plan. The call runs in the form with the lowest price, unless Use
// selects another one:
//
//   - Trees: along the trees of the communicator, whose inner ranks merge sorted streams of blocks (package merge);
//   - Aggregators: in the same way along stars around ranks that aggregate, among which the blocks are dealt; never by
//     price, as trees are as fast or faster;
//   - Shared: on one host, where every rank copies its blocks into shared memory, and reads the blocks that it needs
//     from there (package pool);
//   - Dense: as collective.AllReduce, where the sparse forms save nothing;
//   - Compact, of AllReduceDevice: the devices pack the blocks of the union one behind the other, and the dense plan
//     reduces these from device to device.
//
// Between hosts, blocks in which most elements are zero are sent without the zeros.
//
// Ranks that call Serve have no tensor: they are the only aggregators for the others, until these call StopServing.
// Hosts without tensors can thus take a part of the traffic.
//
// # OmniReduce
//
// The form Aggregators follows OmniReduce (Fei, Ho, Sahu, Canini, Sapio, "Efficient Sparse Collective Communication and
// its application to Accelerate Distributed Deep Learning", SIGCOMM 2021): only non-zero blocks are sent, each message
// names the next block of its sender, so that an aggregator continues with the lowest of them, several aggregators have
// a part of the tensor each, and slots limit the blocks in flight. It departs from the paper's Algorithm 1 in three
// ways: a worker does not wait for the aggregator's request for its next block, but sends as long as there are slots; a
// message has runs of blocks in place of one block per column; and blocks are added in a fixed order. Algorithm 1
// itself was up to three times slower between hosts.
//
// AllReduceDevice does the same for device memory, and copies only these blocks to the host, or none; AllReducePairs
// does it for lists of rows.
//
// # Zeros
//
// A block is left out when all its bits but signs are zero: NaN, infinities and subnormal numbers are never lost, and
// -0 in such a block counts as +0. A block that a rank leaves out counts as +0 in Min and Max, too. send is never
// changed, unless it is recv.
//
// # Results
//
// All ranks get the same bits. For integers they are those of collective.AllReduce. Floating-point numbers are added in
// a fixed order: of the ranks with Aggregators and Shared, of the trees with Trees, of the plan with Dense and Compact.
// So the last bits of a sum depend on the form, and with Trees and Dense on the communicator's trees and plans. With
// one form on one graph they are the same from run to run. The form chosen by price is the same for the same sample of
// blocks on the same graph, whatever calls came before; where the graph is measured it may differ from run to run: Use
// fixes it.
//
// The sum of zeros is -0 where all ranks have -0, and otherwise +0, in all forms, except for elements in blocks that
// some rank leaves out: such a rank has +0 there. In the Dense form no block is left out.
//
// # Memory
//
// The form Shared needs memory for a rank's blocks, which all ranks of the host map, and for the sums that the rank
// makes. A rank keeps both with a communicator from call to call, and frees the part of either beyond 64 MiB at the
// start of a call that needs less, or of one in another form. Closing the communicator frees all of it. A rank that
// serves reserves as much memory as the largest tensor, and touches only the places of the blocks that it adds up. A
// rank that cannot get the memory ends the communicator; Use(Trees) needs none. If the ranks share no memory from the
// start, because they are on several hosts or were started under a small ulimit -v, the form is not chosen, and
// Use(Shared) is an ErrArgument, on all ranks, after they have exchanged their arguments.
//
// # Errors
//
// The errors are those of package collective. If ranks call with different lengths, element types, operations, block
// sizes or options, all get ErrMismatch, and the error names the ranks and calls; a wrong argument is an ErrArgument
// before anything is sent, and so is a tensor of more than 2^30 blocks. AllReducePairs checks this limit, with the same
// result on all ranks, after the exchange of the indices. A stopped rank of the same host, for example in a debugger,
// is waited for; a rank on another host is lost when nothing has been received from it for some seconds.
//
// # Links
//
// The first call on a communicator that needs the links opens them. They live as long as the communicator, or until a
// call with larger blocks than they can carry replaces them. Several communicators may do so at once, in any order.
package sparse
