// Package collective runs collectives (AllReduce, Reduce, Broadcast, AllGather,
// ReduceScatter, AllToAll, Gather, Scatter, Barrier) over the ranks of a job,
// and carries messages from rank to rank.
//
//	w, err := rank.Init(ctx)
//	c, err := collective.New(ctx, w)
//	err = collective.AllReduce(ctx, c, grad, grad, collective.Sum)
//
// New measures how the ranks are connected (or takes the measurement of an
// earlier job on this host), makes trees and plans from it, and checks that
// all ranks came to the same ones. The calls then run the plan that is the
// quickest for their size by price.
//
// # Calls
//
// All ranks of a communicator make the same calls in the same order, with the
// same operation, element type, count and root. A rank that does not is found
// out within a second: the call fails with ErrMismatch, or, on a rank that has
// returned from it, as the root of a Broadcast may, the next one, or Close; and the
// error names both calls. Calls that are alike and come in another order on one rank, as those of a range over a map,
// give wrong results, and no error. send and recv are the same slice (in place) or do
// not overlap. Messages are not calls of all ranks: a Send and a Recv with
// different tags do not meet and may both be right, as long as neither rank
// waits for the other; a stall report says what a rank waits for.
//
// Calls whose names end in V have parts that may differ in length: counts[i] is the number of elements of rank i's
// part, which may be 0. The parts lie one after the other, in the order of the ranks. All ranks give the same counts,
// also those without the whole message. A rank that knows only its own count learns the others' with AllGather.
//
// A wrong argument is an error of kind ErrArgument before anything is sent,
// and the communicator stays usable. Any other error ends the communicator on
// all ranks: each gets a *RankError with the first cause, and so does every
// later call.
//
// # After a failure
//
// The contents of what a failed call writes are undefined: recv, in place send as
// well, the buf of a Recv. An AllReduce in place leaves partial sums, so that a
// program which wants to try again keeps a copy of its input. What a call only
// reads, send of a call that is not in place and the buf of a Send, is as it was.
// When the error is returned nothing of treerun's writes to these slices any more,
// but for a sender that was stopped in the middle of writing to its peer's memory.
//
// A communicator that has failed can only be closed. Its World, and communicators
// that it was split off from or that were made beside it, are well, unless a rank is
// lost, which is the end for all of them. So what may fail by a timeout or by Abort
// runs on a part that Split has made, and is tried again on the next one; see the
// example of Split.
//
// When the time of a call is up, by its context or by WithStallTimeout, Rank of the
// error is the rank that all wait for in the end, which may be none of those that the
// call itself waits for: a rank that is stopped, gives no answer or is in no call. It
// is -1 where ranks wait for each other in a circle, which the text names.
//
// # Contexts
//
// When the context of a call ends, the communicator ends on all ranks: the others may have begun the call, and cannot
// finish it without this rank. Every rank's error, of this call, of the next one or of Close, matches ErrCanceled and
// what the context ended with, context.Canceled or context.DeadlineExceeded. So does a context that has ended before
// the call, and one that ends in Wait, in Split, Dup or Sub, or while a message is awaited. The contexts of the ranks
// need not be the same; one suffices to bound the wait of all. Only that rank's own error of New matches its context's.
//
// A Split, Dup or Sub that a rank gives up may have made a communicator on others. Every call on it fails there, as a
// rule with ErrPeerClosed; they close it.
//
// A context that ends when a program is to stop, as that of signal.NotifyContext, is not for calls: ranks are told at
// different moments. They agree on when to leave; see the example AllReduceValue (Shutdown).
//
// # Goroutines
//
// One goroutine at a time calls on a communicator; which one does not matter. A second one gets ErrBusy, and nothing is
// done. Any goroutine may call Abort, Close, Stats, Name, Rank, Size, Graph, Between and Explain at any time. Calls on
// different communicators may run at once. The function of an AllReduceFunc makes no calls on its communicator.
//
// # Devices
//
// AllReduceDevice and its like are the collectives on memory of GPUs, as package
// cuda allocates it:
//
//	gpu, err := cuda.DeviceByUUID(w.Device())
//	s, err := gpu.NewStream()
//	err = collective.AllReduceDevice(ctx, c, s, grad, grad, collective.Sum)
//	err = c.SyncDevice(ctx, s)
//
// They are calls like the others, and stand in one order with them, on all ranks
// the same; but they are done in the order of a stream, behind what it has to do
// already, and return when they are in it. What was computed is known to be right when SyncDevice says so.
// Until then send and recv must not be touched but by what comes behind in the
// stream. Up to 256 may be under way on a rank, on one stream or on several of its
// device; one more waits for the first.
//
// SendDevice, RecvDevice and SendRecvDevice are calls of two ranks, and have no place in that order.
//
// All ranks call the first of the others together, and it opens their devices: memory
// for what is under way, mapped into the ranks of the host that read it, and
// streams. Whether one device reads another's memory is found out by doing it;
// where it does not, what they exchange goes through the memory of the hosts, and
// through TCP between them. Where a device cannot be opened the call is an
// ErrDevice on all ranks, with the rank whose it is, and the communicator is as it
// was. That first call may not be made while a stream of this process waits for
// what only its caller can bring about: the driver waits for streams when memory
// is allocated.
//
// Goroutines may make device calls on different communicators at once, in any order. But what waits for the device
// (the first device call, also of an element type, Close, freeing device memory, loading code) is for when no call of
// another communicator is under way: one that waits behind it, on two ranks the other way round, would wait for ever.
//
// # Numbers
//
// The same plan gives bit-identical results from run to run and on all ranks:
// the order of additions is the plan's. Sum, Prod and Avg of Float16 and
// BFloat16 are computed in float32 and rounded to nearest even after each
// operation. Integers wrap; Avg of integers divides the wrapped sum and
// truncates toward zero. Min and Max give NaN when any input is NaN.
//
// The package does not start processes and does not import package rank: it
// takes any World.
package collective
